//! Passbook.
