//! The list of campaigns: long runs of tests that are short in `cargo xtask test`. Each campaign is a test that reads its size from the environment,
//! shows its progress, and ends with one line of results.

/// A campaign.
pub struct Campaign {
    /// The word after `cargo xtask`.
    pub name: &'static str,
    /// The arguments of `cargo test` that select its tests.
    pub test: &'static [&'static str],
    /// The default size.
    pub n: u64,
}

/// The campaigns. The campaigns of the interop tests name the whole workspace, so that they use the same build as `cargo xtask test`.
pub const CAMPAIGNS: &[Campaign] = &[
    Campaign { name: "acls", test: &["-p", "enfilade-access", "--lib", "random_lists"], n: 10_000_000 },
    Campaign { name: "authzen", test: &["--workspace", "--test", "interop", "every_core_case"], n: 1 },
    Campaign { name: "bitflip", test: &["-p", "enfilade-testkit", "--test", "bitflip"], n: 10_000 },
    Campaign { name: "browser", test: &["--workspace", "--test", "interop", "names::a_browser"], n: 20 },
    Campaign { name: "canary", test: &["--workspace", "--test", "interop", "canary"], n: 10_000 },
    Campaign { name: "clocks", test: &["--workspace", "--test", "interop", "clocks"], n: 300 },
    Campaign { name: "crash", test: &["-p", "enfilade-testkit", "--test", "crash"], n: 1 },
    Campaign { name: "damage", test: &["--workspace", "--test", "interop", "no_damage_ends"], n: 10_000 },
    Campaign { name: "drill", test: &["--workspace", "--test", "interop", "backup::a_drill"], n: 1_000_000 },
    Campaign { name: "explain", test: &["-p", "enfilade-testkit", "--test", "explaining"], n: 100_000 },
    Campaign {
        name: "fleet-clients",
        test: &["--workspace", "--test", "interop", "fleet::balanced"],
        n: 10_000,
    },
    Campaign { name: "fleet-model", test: &["-p", "enfilade-testkit", "--test", "fleet"], n: 1 },
    Campaign {
        name: "framing",
        test: &["-p", "enfilade", "--bin", "enfilade", "the_follower_agrees"],
        n: 1_000_000,
    },
    Campaign { name: "freshness", test: &["-p", "enfilade-testkit", "--test", "freshness"], n: 1 },
    Campaign {
        name: "fuzz",
        test: &[
            "-p",
            "enfilade-testkit",
            "-p",
            "enfilade-webdav",
            "-p",
            "enfilade-access",
            "-p",
            "enfilade-sources",
            "--lib",
            "--test",
            "fuzzed",
            "fuzzed",
        ],
        n: 1_000_000,
    },
    Campaign { name: "idle", test: &["--workspace", "--test", "interop", "say_nothing"], n: 9_500 },
    Campaign { name: "kill-loop", test: &["--workspace", "--test", "interop", "kill_loop"], n: 2_000 },
    Campaign { name: "lending", test: &["-p", "enfilade-testkit", "--test", "lending"], n: 1_000_000 },
    Campaign { name: "nemesis", test: &["--workspace", "--test", "interop", "fleet::nemesis"], n: 600 },
    Campaign { name: "nemesis-in-process", test: &["-p", "enfilade-fleet", "--test", "nemesis"], n: 600 },
    // The size is the number of members.
    Campaign { name: "on-fleet", test: &["--workspace", "--test", "interop", "fleet::on_fleet"], n: 1 },
    Campaign { name: "operations", test: &["--workspace", "--test", "interop", "operations"], n: 10_000 },
    Campaign { name: "page", test: &["--workspace", "--test", "interop", "page::"], n: 1 },
    // The test runs on copies of the source with a fault.
    Campaign { name: "planted", test: &["--workspace", "--test", "interop", "fleet::nemesis"], n: 600 },
    Campaign { name: "power-cuts", test: &["-p", "enfilade", "--test", "power_cuts"], n: 100_000 },
    Campaign { name: "race", test: &["--workspace", "--test", "interop", "race"], n: 1_000_000 },
    Campaign {
        name: "reloads",
        test: &["--workspace", "--test", "interop", "certificates::names_that_stay"],
        n: 1_000,
    },
    // The test runs with an older program, which is built first.
    Campaign { name: "rolling", test: &["--workspace", "--test", "interop", "fleet::rolling"], n: 100 },
    Campaign { name: "sessions", test: &["-p", "enfilade-testkit", "--test", "sessions"], n: 1_000_000 },
    Campaign {
        name: "squeeze",
        test: &["--workspace", "--test", "interop", "nobody_takes_all_memory"],
        n: 20,
    },
    Campaign {
        name: "subrequests",
        test: &["--workspace", "--test", "interop", "no_deleted_token_is_accepted"],
        n: 1_000_000,
    },
    Campaign { name: "swaps", test: &["-p", "enfilade-content", "--lib", "racing"], n: 1_000_000 },
    Campaign { name: "trees", test: &["-p", "enfilade-testkit", "--test", "interleaved"], n: 100_000 },
    Campaign { name: "timing", test: &["--workspace", "--test", "interop", "timing"], n: 135_000 },
    Campaign {
        name: "upgrade",
        test: &["-p", "enfilade-sources", "--lib", "an_upgrade_has_only_some"],
        n: 1_000_000,
    },
    Campaign {
        name: "uris",
        test: &["--workspace", "--test", "interop", "the_path_that_was_judged"],
        n: 1_000_000,
    },
    Campaign {
        name: "verdicts",
        test: &["--workspace", "--test", "interop", "every_protocol_gives_the_same"],
        n: 1_000_000,
    },
    Campaign {
        name: "well-formed",
        test: &["--workspace", "--test", "interop", "random_bodies_come_back"],
        n: 20_000,
    },
];
