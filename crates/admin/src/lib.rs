//! The only writer of facts: every validated change is one function here.
