//! Outrigger.

pub mod yaml;
