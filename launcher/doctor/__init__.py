"""`launch doctor`: all hosts are asked, what they told becomes findings, the findings become a report."""
