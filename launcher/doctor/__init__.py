"""`launch doctor`: all hosts are examined, their answers become findings, the findings become a report."""
