//! Outside protocols turned into doors and changes; a face decides nothing.
