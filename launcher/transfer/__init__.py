"""Files on their way between this machine and a host: what gathering, restoring and sync share."""
