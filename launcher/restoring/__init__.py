"""The newest checkpoint of the chief, brought to every host before workers start again."""
