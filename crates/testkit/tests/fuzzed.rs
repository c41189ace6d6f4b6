//! Malformed tokens. Another spelling of a revoked or valid token is refused. A signed token with random content causes no panic, and admits no user
//! who does not exist.

#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests")]
#![allow(clippy::print_stdout, reason = "a campaign says how far it is")]

use enfilade_admin::NewUser;
use enfilade_admin::keystone as admin;
use enfilade_facts::tables::Revoked;
use enfilade_facts::vocabulary::{Secret, UserId, Userid};
use enfilade_identity::fernet::frame;
use enfilade_identity::fernet::payload::Audit;
use enfilade_identity::{Claim, Methods, Scope, SessionAsk};
use enfilade_passage::KeyRing;
use enfilade_testkit::{Remembering, TestHouse};

struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) as usize) % sides
    }

    fn byte(&mut self) -> u8 {
        u8::try_from(self.roll(256)).unwrap()
    }
}

struct World {
    house: TestHouse,
    ring: KeyRing,
    user: UserId,
}

fn ring() -> KeyRing {
    KeyRing::new(&[(0, &[7; 32]), (1, &[8; 32])]).unwrap()
}

impl World {
    fn new() -> Self {
        let house = TestHouse::new(Remembering::AsServed);
        let userid: Userid = "ann@local".parse().unwrap();
        let new = NewUser::named(userid);
        let (user, _) = enfilade_admin::add_user(&house.change_context(), &new).unwrap();
        house.house.set_keys(Some(ring()));
        World { house, ring: ring(), user }
    }

    fn claim(&self, own: u8) -> Claim {
        let now = self.house.clock.now().unix_seconds;
        Claim {
            user: self.user,
            methods: Methods::PASSWORD,
            scope: Scope::Unscoped,
            lent: None,
            issued_at: now,
            expires_at: now + 3_600,
            audit: Audit { own: [own; 16], chain: None },
        }
    }

    fn seal(&self, issued_at: i64, payload: &[u8]) -> String {
        frame::seal(&self.ring, u64::try_from(issued_at).unwrap(), [5; 16], payload).unwrap()
    }

    /// Whether the token is accepted.
    fn admits(&self, token: &[u8]) -> bool {
        Secret::new(token).is_some() && self.house.come_in_by(token).is_ok()
    }
}

/// Changes a few of the bytes.
fn mutated(dice: &mut Dice, bytes: &[u8], others: &[&[u8]]) -> Vec<u8> {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_+/=. \t\r\n%\0";
    let mut text = bytes.to_vec();
    for _ in 0..=dice.roll(3) {
        let at = dice.roll(text.len().max(1));
        let letter = ALPHABET[dice.roll(ALPHABET.len())];
        match dice.roll(9) {
            0 if at < text.len() => text[at] = letter,
            1 if at < text.len() => text[at] ^= 1 << dice.roll(8),
            2 => text.insert(at.min(text.len()), letter),
            3 if at < text.len() => drop(text.remove(at)),
            4 => text.extend(std::iter::repeat_n(b'=', 1 + dice.roll(3))),
            5 => text.truncate(at),
            6 if at < text.len() => text[at] = text[at].to_ascii_uppercase(),
            // For most lengths, the low bits of the last letter are unused. So another last letter can stand for the same bytes.
            7 => *text.last_mut().unwrap_or(&mut 0) = letter,
            8 => {
                let other = others[dice.roll(others.len())];
                let cut = dice.roll(other.len().min(text.len()).max(1));
                text.truncate(cut);
                text.extend_from_slice(&other[cut.min(other.len())..]);
            }
            _ => text.push(letter),
        }
    }
    text
}

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

#[test]
fn fuzzed_spellings_of_tokens_are_refused() {
    let (n, seed) = (number("ENFILADE_CAMPAIGN_N", 20_000), number("ENFILADE_CAMPAIGN_SEED", 7));
    let (world, mut dice) = (World::new(), Dice(seed * 2 + 1));
    let token = |own| {
        let claim = world.claim(own);
        world.seal(claim.issued_at, &claim.to_payload())
    };
    let (revoked, good) = (token(1), token(2));
    assert!(world.admits(revoked.as_bytes()) && world.admits(good.as_bytes()));
    admin::revoke(&world.house.change_context(), &[Revoked::Token([1; 16])], None, "a test").unwrap();
    let known: [&[u8]; 2] = [revoked.as_bytes(), good.as_bytes()];
    let mut tried = [0; 2];
    for (of, token) in known.iter().enumerate() {
        while tried[of] < n {
            let spelled = mutated(&mut dice, token, &known);
            // By chance the result can be the good token itself.
            if spelled != good.as_bytes() {
                assert!(!world.admits(&spelled), "{:?}", String::from_utf8_lossy(&spelled));
                tried[of] += 1;
            }
        }
    }
    assert!(world.admits(good.as_bytes()) && !world.admits(revoked.as_bytes()));
    println!("{tried:?} other spellings of a revoked token and of a valid token: none was accepted");
}

#[test]
fn fuzzed_payloads_break_nothing_and_let_nobody_in_who_is_not_there() {
    let (n, seed) = (number("ENFILADE_CAMPAIGN_N", 20_000), number("ENFILADE_CAMPAIGN_SEED", 9));
    let (world, mut dice) = (World::new(), Dice(seed * 2 + 1));
    let claim = world.claim(3);
    let payload = claim.to_payload();
    let scoped = Claim { scope: Scope::System, ..claim }.to_payload();
    let (mut taken, mut refused) = (0, 0);
    for _ in 0..n {
        let bytes = match dice.roll(3) {
            0 => (0..dice.roll(120)).map(|_| dice.byte()).collect(),
            1 => mutated(&mut dice, &payload, &[&scoped]),
            _ => mutated(&mut dice, &scoped, &[&payload]),
        };
        let token = world.seal(claim.issued_at, &bytes);
        if !world.admits(token.as_bytes()) {
            refused += 1;
            continue;
        }
        // An accepted token can be read, and names the existing user, no scope and no delegation.
        let ask = SessionAsk { token: Secret::new(token.as_bytes()).unwrap() };
        let read = Claim::read(&world.ring, &ask).unwrap();
        assert_eq!((read.user, read.scope, read.lent), (world.user, Scope::Unscoped, None));
        assert!(read.expires_at > claim.issued_at);
        taken += 1;
    }
    assert!(taken > 0 && refused > taken, "{taken} accepted, {refused} refused");
    println!("{n} payloads: {refused} refused, {taken} accepted for the existing user without a scope");
}
