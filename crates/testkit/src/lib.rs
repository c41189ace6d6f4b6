//! Worlds in text, a fixed clock, a house in process (tests only).
