"""HTML reports in one file, their plots, and the progress of the Spark jobs behind them."""
