"""`--resume`: an earlier run goes on."""
