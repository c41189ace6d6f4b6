//! Keystone's enforcement models: whether the limit of a project may be larger than the limit of the project or domain above it.

use enfilade_facts::limits::PROJECT_DEPTH_MAX;

/// An enforcement model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitModel {
    /// Limits do not depend on each other.
    #[default]
    Flat,
    /// The limit of a project is at most the limit of its parent, and projects are at most two levels deep.
    StrictTwoLevel,
}

impl LimitModel {
    /// Every model.
    pub const ALL: [LimitModel; 2] = [LimitModel::Flat, LimitModel::StrictTwoLevel];

    /// The name, as in Keystone's configuration.
    pub fn name(self) -> &'static str {
        match self {
            LimitModel::Flat => "flat",
            LimitModel::StrictTwoLevel => "strict_two_level",
        }
    }

    /// The model in words.
    pub fn says(self) -> &'static str {
        match self {
            LimitModel::Flat => "Limits do not depend on the hierarchy of projects.",
            LimitModel::StrictTwoLevel => {
                "The limit of a project is at most that of its parent; projects are at most two levels deep."
            }
        }
    }

    /// The maximum number of projects above a project.
    pub fn depth_max(self) -> usize {
        match self {
            LimitModel::Flat => PROJECT_DEPTH_MAX,
            LimitModel::StrictTwoLevel => 1,
        }
    }
}
