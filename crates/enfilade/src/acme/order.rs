//! One order at the ACME authority: the authority validates each name, and then issues the certificate (RFC 8555 §7.4).

use super::Answers;
use super::answers::Answer;
use super::challenge::Challenge;
use super::fleet::Taken;
use anyhow::{Context, bail};
use instant_acme::{Account, AuthorizationStatus, Identifier, NewOrder, Order, OrderStatus, RetryPolicy};
use std::time::Duration;

/// The maximum time for each of two waits: until the names are validated, and until the certificate is issued.
const PATIENCE: RetryPolicy = RetryPolicy::new().timeout(Duration::from_secs(90));

/// The servers that answer the challenges of an order.
#[derive(Clone, Copy)]
pub(super) enum Answering<'a> {
    /// The servers of this data directory.
    Here(&'a Answers),
    /// All members of the fleet.
    Fleet(&'a Taken<'a>),
}

/// A certificate with its intermediates, and the key of the certificate. Both texts are PEM.
pub(super) struct Obtained {
    pub(super) chain: String,
    pub(super) key: String,
}

/// Orders a certificate for the names.
pub(super) async fn obtain(
    account: &Account,
    names: &[String],
    challenge: Challenge,
    answering: Answering<'_>,
) -> anyhow::Result<Obtained> {
    let identifiers: Vec<Identifier> = names.iter().cloned().map(Identifier::Dns).collect();
    let mut order = account
        .new_order(&NewOrder::new(&identifiers))
        .await
        .context("the authority did not accept the order")?;
    // The servers send the answers until the validation has ended.
    let _served = begin(&mut order, challenge, answering).await?;
    let validated = order.poll_ready(&PATIENCE).await;
    if !matches!(validated, Ok(OrderStatus::Ready)) {
        let failures = failures(&mut order).await;
        anyhow::ensure!(failures.is_empty(), "{}: {}", challenge.name(), failures.join(", "));
        let status = validated.with_context(|| format!("the validation failed ({})", challenge.name()))?;
        bail!("the authority did not validate the names ({}): the order is {status:?}", challenge.name());
    }
    let key = order.finalize().await.context("the request for the certificate failed")?;
    let chain =
        order.poll_certificate(&PATIENCE).await.context("the authority did not send the certificate")?;
    Ok(Obtained { chain, key })
}

/// Prepares the answer for each name, and then asks the authority to validate the names.
async fn begin(
    order: &mut Order,
    challenge: Challenge,
    answering: Answering<'_>,
) -> anyhow::Result<Vec<Answer>> {
    let (mut served, mut ids) = (Vec::new(), Vec::new());
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.context("the authority did not send an authorization of the order")?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let Identifier::Dns(name) = authorization.identifier().identifier.clone() else {
            bail!("the authority wants to validate an identifier that is not a host name");
        };
        let asked = authorization.challenge(challenge.kind()).with_context(|| {
            format!("the authority offers no validation of this kind ({}) for `{name}`", challenge.name())
        })?;
        let proof = asked.key_authorization();
        let (of, value) = match challenge {
            Challenge::Http => (asked.token.clone(), proof.as_str().as_bytes().to_vec()),
            Challenge::TlsAlpn => {
                (crate::self_made::name(&name).map_err(anyhow::Error::msg)?, proof.digest().as_ref().to_vec())
            }
        };
        Answers::check(challenge, &of)?;
        match answering {
            Answering::Here(answers) => served.push(answers.put(challenge, &of, &value)?),
            Answering::Fleet(taken) => ids.push(taken.answer(challenge, &of, &value).await?),
        }
    }
    // The authority can connect to any member, so all members need the answer.
    if let Answering::Fleet(taken) = answering {
        taken.wait_until_answered(&ids).await;
    }
    let mut authorizations = order.authorizations();
    while let Some(authorization) = authorizations.next().await {
        let mut authorization =
            authorization.context("the authority did not send an authorization of the order")?;
        if authorization.status == AuthorizationStatus::Valid {
            continue;
        }
        let name = authorization.identifier().to_string();
        if let Some(mut asked) = authorization.challenge(challenge.kind()) {
            asked
                .set_ready()
                .await
                .with_context(|| format!("the authority could not be asked to validate `{name}`"))?;
        }
    }
    Ok(served)
}

/// The names for which the validation failed, with the reasons that the authority gives.
async fn failures(order: &mut Order) -> Vec<String> {
    let mut failed = Vec::new();
    let mut authorizations = order.authorizations();
    while let Some(Ok(mut authorization)) = authorizations.next().await {
        let _ = authorization.refresh().await;
        let problems = authorization.challenges.iter().filter_map(|challenge| challenge.error.as_ref());
        let reasons: Vec<&str> = problems.filter_map(|problem| problem.detail.as_deref()).collect();
        if !reasons.is_empty() {
            failed.push(format!("`{}`: {}", authorization.identifier(), reasons.join("; ")));
        }
    }
    failed
}
