//! Explores a model: all states that its steps can reach, in every order of the steps.

use std::collections::HashSet;
use std::hash::Hash;

/// Explores all reachable states, breadth first. `next` returns each possible step of a state, with the state after the step. `tell` describes a step
/// in words. `wrong` returns the property that a state violates, if there is one. Returns the number of states.
///
/// # Errors
/// The shortest sequence of steps to a wrong state, and the violated property.
pub fn explore<W: Copy + Eq + Hash, L>(
    start: W,
    next: impl Fn(&W) -> Vec<(L, W)>,
    tell: impl Fn(L) -> String,
    wrong: impl Fn(&W) -> Option<&'static str>,
) -> Result<usize, Vec<String>> {
    let mut seen = HashSet::from([start]);
    // Each state, with the index of the state from which it was reached.
    let mut states = vec![(start, 0_u32)];
    let mut at = 0;
    while let Some((world, _)) = states.get(at).copied() {
        if let Some(wrong) = wrong(&world) {
            let mut way = vec![format!("=> {wrong}")];
            while let Some((world, from)) = states.get(at).copied().filter(|_| at != 0) {
                at = from as usize;
                let before = states.get(at).map(|(before, _)| next(before)).unwrap_or_default();
                way.extend(before.into_iter().find(|(_, then)| *then == world).map(|(label, _)| tell(label)));
            }
            way.reverse();
            return Err(way);
        }
        for (_, then) in next(&world) {
            if seen.insert(then) {
                states.push((then, at as u32));
            }
        }
        at += 1;
    }
    Ok(states.len())
}
