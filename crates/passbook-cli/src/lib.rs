//! Part of Passbook.
