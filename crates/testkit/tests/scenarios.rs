//! Runs every world in `scenarios/` with large memos and with tiny memos. The answers must be the same.

use enfilade_testkit::{Remembering, run_world};
use std::path::Path;

#[test]
fn every_world_comes_out_as_it_says() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scenarios");
    let mut worlds: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    worlds.retain(|path| path.extension().is_some_and(|extension| extension == "world"));
    worlds.sort();
    assert!(!worlds.is_empty());
    let mut wrong = Vec::new();
    for world in worlds {
        let text = std::fs::read_to_string(&world).unwrap();
        for remembering in [Remembering::AsServed, Remembering::Hardly] {
            let found = run_world(&text, remembering);
            wrong
                .extend(found.into_iter().map(|why| format!("{} ({remembering:?}): {why}", world.display())));
        }
    }
    assert!(wrong.is_empty(), "\n{}", wrong.join("\n"));
}

#[test]
fn a_world_that_says_something_wrong_is_found_out() {
    let world = "user alice@local\ndatastore tank\nask alice@local read / -> permit\nnonsense";
    let wrong = run_world(world, Remembering::AsServed);
    assert_eq!(wrong.len(), 2, "{wrong:?}");
    assert!(wrong[0].starts_with("line 3:") && wrong[0].ends_with("the answer was `AC01`"), "{wrong:?}");
}
