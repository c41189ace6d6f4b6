//! Rules for multi-factor authentication: which methods a login of a user needs.

use crate::refuse::Refusal;
use crate::session::Methods;
use crate::view::View;
use enfilade_facts::vocabulary::{Authid, UserId};

/// The methods that a rule needs. As in Keystone, words that do not name a method of this server are ignored. A rule with only such words does not
/// count (`None`). If words are ignored and the only remaining method is the passcode, the rule also needs the password. Otherwise a rule with two
/// factors would become a rule with one factor.
fn needed(rule: &[String]) -> Option<Methods> {
    let known = rule.iter().filter_map(|name| Methods::named(name));
    let needed = known.clone().reduce(Methods::and)?;
    let is_whole = known.count() == rule.len();
    Some(if needed == Methods::TOTP && !is_whole { needed.and(Methods::PASSWORD) } else { needed })
}

/// Whether a login with these methods satisfies the rules: a login needs all methods of at least one rule. If no rule counts, each method alone is
/// enough. Exception: a passcode alone is not enough, because it has only six digits.
pub(crate) fn suffice(rules: &[Vec<String>], given: Methods) -> bool {
    let mut all = rules.iter().filter_map(|rule| needed(rule)).peekable();
    match all.peek() {
        None => given != Methods::TOTP && given != Methods(0),
        Some(_) => all.any(|needed| given.have(needed)),
    }
}

/// The rules that a login of the user must satisfy: the rules in the profile and, if the user has a second factor, the rule that the second factor
/// adds.
pub(crate) fn rules_of(view: &View<'_>, user: &UserId) -> Result<Vec<Vec<String>>, Refusal> {
    let rules = view.mfa_rules(user)?;
    Ok(match view.second_factor(user)? {
        Some(_) => with_second_factor(rules),
        None => rules,
    })
}

/// The rules for a user with a second factor: each rule that contains the password or the passcode needs both of them. If no rule of the user counts,
/// a login with the password also needs the passcode, and an application credential or an OAuth access token alone is enough.
fn with_second_factor(mut rules: Vec<Vec<String>>) -> Vec<Vec<String>> {
    const BOTH: [&str; 2] = ["password", "totp"];
    rules.retain(|rule| needed(rule).is_some());
    if rules.is_empty() {
        rules = vec![BOTH.map(str::to_owned).to_vec()];
        rules.extend(["application_credential", "oauth1"].map(|method| vec![method.to_owned()]));
    }
    for rule in &mut rules {
        if rule.iter().any(|method| BOTH.contains(&method.as_str())) {
            rule.extend(BOTH.map(str::to_owned));
            rule.sort();
            rule.dedup();
        }
    }
    rules
}

/// Checks that these methods satisfy the rules of the user.
pub(crate) fn check(view: &View<'_>, authid: &Authid, user: UserId, given: Methods) -> Result<(), Refusal> {
    match suffice(&rules_of(view, &user)?, given) {
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
            // Words that do not name a method of this server do not count.
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
    fn with_a_second_factor_neither_password_nor_passcode_is_enough() {
        let (password, totp, token) = (Methods::PASSWORD, Methods::TOTP, Methods::TOKEN);
        for of in [
            &[][..],
            &[&["password"][..]],
            &[&["totp"]],
            &[&["password"], &["totp"]],
            &[&["password", "totp"]],
            &[&["u2f"]],
            &[&["password", "u2f"]],
            &[&["totp", "u2f"]],
        ] {
            let of = with_second_factor(rules(of));
            for (given, expected) in [
                (password, false),
                (totp, false),
                (password.and(token), false),
                (totp.and(token), false),
                (Methods(0), false),
                (BOTH, true),
                (BOTH.and(token), true),
            ] {
                assert_eq!(suffice(&of, given), expected, "{of:?} {given:?}");
            }
        }
        for given in [Methods::APPLICATION_CREDENTIAL, Methods::OAUTH1] {
            assert!(suffice(&with_second_factor(rules(&[])), given), "{given:?}");
            assert!(!suffice(&with_second_factor(rules(&[&["password"]])), given), "{given:?}");
        }
        // A rule in the profile of the user stays in force when the user has a second factor.
        let strict = with_second_factor(rules(&[&["password", "oauth1"]]));
        assert!(!suffice(&strict, BOTH) && suffice(&strict, BOTH.and(Methods::OAUTH1)));
        assert_eq!(to_complete(&with_second_factor(rules(&[])), password), rules(&[&["password", "totp"]]));
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
