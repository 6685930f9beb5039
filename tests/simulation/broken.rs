//! Tests of the checkers.
