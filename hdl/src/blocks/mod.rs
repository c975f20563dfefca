//! Hardware blocks, one per file.
