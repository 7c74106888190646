"""Dates as Korean writes them, the clock in 24 hours."""

DATE_FORMAT = "Y년 n월 j일"
TIME_FORMAT = "H:i"
DATETIME_FORMAT = "Y년 n월 j일 H:i"
SHORT_DATE_FORMAT = "Y. n. j."
SHORT_DATETIME_FORMAT = "Y. n. j. H:i"
