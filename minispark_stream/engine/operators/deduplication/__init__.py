"""dropDuplicates and dropDuplicatesWithinWatermark, which are one operator."""
