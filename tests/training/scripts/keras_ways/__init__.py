"""Small Keras programs, as people write them, with one worker, several, or none: one function a way of using Keras."""
