"""HTML reports in one file, their plots, and the progress of Spark jobs."""
