//! Outrigger.
