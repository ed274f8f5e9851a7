"""How the programs start Spark, and what they say of its errors."""
