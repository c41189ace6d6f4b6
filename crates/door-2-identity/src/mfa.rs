//! Rules for multi-factor authentication: which methods a login of a user needs.

use crate::refuse::Refusal;
use crate::session::Methods;
use crate::view::View;
use enfilade_facts::vocabulary::{Authid, UserId};

/// The methods that a rule needs. As in Keystone, words that are no method of this server are ignored, and a rule of only such words does not count
/// (`None`). If the only method left is the passcode, the rule needs the password, too: otherwise a rule with two factors would become a rule with
/// one.
fn needed(rule: &[String]) -> Option<Methods> {
    let known = rule.iter().filter_map(|name| Methods::named(name));
    let needed = known.clone().reduce(Methods::and)?;
    let is_whole = known.count() == rule.len();
    Some(if needed == Methods::TOTP && !is_whole { needed.and(Methods::PASSWORD) } else { needed })
}

/// Whether a login with these methods satisfies the rules: it has all methods of one rule. If no rule counts, each method is enough, except a
/// passcode, because a passcode has only six digits.
pub(crate) fn suffice(rules: &[Vec<String>], given: Methods) -> bool {
    let mut all = rules.iter().filter_map(|rule| needed(rule)).peekable();
    match all.peek() {
        None => given != Methods::TOTP && given != Methods(0),
        Some(_) => all.any(|needed| given.have(needed)),
    }
}

/// Checks that these methods satisfy the rules of the user.
pub(crate) fn check(view: &View<'_>, authid: &Authid, user: UserId, given: Methods) -> Result<(), Refusal> {
    match suffice(&view.mfa_rules(&user)?, given) {
        true => Ok(()),
        false => Err(Refusal::MoreMethods { authid: authid.clone(), user: Box::new(user) }),
    }
}

/// Whether this method alone satisfies these rules.
pub fn is_enough(rules: &[Vec<String>], method: &str) -> bool {
    Methods::named(method).is_some_and(|given| suffice(rules, given))
}

/// The rules that contain one of these methods, for a client that has to complete its login.
pub(crate) fn to_complete(rules: &[Vec<String>], given: Methods) -> Vec<Vec<String>> {
    let is_begun = |rule: &&Vec<String>| needed(rule).is_some_and(|needed| needed.0 & given.0 != 0);
    let known =
        |rule: &Vec<String>| rule.iter().filter(|name| Methods::named(name).is_some()).cloned().collect();
    rules.iter().filter(is_begun).map(known).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOTH: Methods = Methods(Methods::PASSWORD.0 | Methods::TOTP.0);

    fn rules(of: &[&[&str]]) -> Vec<Vec<String>> {
        of.iter().map(|rule| rule.iter().map(|name| (*name).to_owned()).collect()).collect()
    }

    #[test]
    fn a_login_has_all_methods_of_one_rule() {
        let (password, totp, credential) =
            (Methods::PASSWORD, Methods::TOTP, Methods::APPLICATION_CREDENTIAL);
        for (of, given, expected) in [
            (&[][..], password, true),
            (&[], totp, false),
            (&[], Methods(0), false),
            (&[], BOTH, true),
            (&[&["password", "totp"][..]], password, false),
            (&[&["password", "totp"]], totp, false),
            (&[&["password", "totp"]], credential, false),
            (&[&["password", "totp"]], BOTH, true),
            (&[&["password", "totp"]], BOTH.and(Methods::TOKEN), true),
            (&[&["password", "totp"], &["application_credential"]], credential, true),
            (&[&["password"], &["password", "totp"]], password, true),
            (&[&["totp"]], totp, true),
            (&[&["totp"]], password, false),
            // Words that are no method of this server do not count.
            (&[&["password", "u2f"]], password, true),
            (&[&["u2f"]], password, true),
            (&[&["u2f"], &["password", "totp"]], password, false),
            (&[&["mapped", "totp"]], totp, false),
            (&[&["mapped", "totp"]], password, false),
            (&[&["mapped", "totp"]], BOTH, true),
            (&[&["pasword", "totp"], &["u2f"]], password, false),
            (&[], Methods::OAUTH1, true),
            (&[&["password", "totp"]], Methods::OAUTH1, false),
            (&[&["password", "totp"], &["oauth1"]], Methods::OAUTH1, true),
            (&[&["oauth1"]], password, false),
            (&[&["password", "oauth1"]], password, false),
            (&[&["ec2credential"]], Methods::EC2_KEY, true),
        ] {
            assert_eq!(suffice(&rules(of), given), expected, "{of:?} {given:?}");
        }
    }

    #[test]
    fn one_method_is_enough_if_a_rule_says_so() {
        for (of, method, expected) in [
            (&[][..], "password", true),
            (&[], "totp", false),
            (&[], "u2f", false),
            (&[&["password", "totp"][..]], "password", false),
            (&[&["totp"]], "totp", true),
        ] {
            assert_eq!(is_enough(&rules(of), method), expected, "{of:?} {method}");
        }
    }

    #[test]
    fn only_rules_that_were_begun_are_told() {
        let of = rules(&[&["password", "totp", "u2f"], &["totp", "token"], &["application_credential"]]);
        assert_eq!(to_complete(&of, Methods::PASSWORD), rules(&[&["password", "totp"]]));
        assert_eq!(to_complete(&of, Methods::TOTP), rules(&[&["password", "totp"], &["totp", "token"]]));
        assert_eq!(to_complete(&[], Methods::TOTP), rules(&[]));
    }
}
