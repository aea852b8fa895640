//! The comparison of runs with forwarding off, on, and strict.
