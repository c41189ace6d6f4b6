//! The connection to etcd: reads and transactions, each with a time limit.

use crate::messages::{
    Compare, Compared, DeleteRangeRequest, Event, KeyValue, LeaseGrantRequest, LeaseGrantResponse,
    LeaseKeepAliveRequest, LeaseKeepAliveResponse, Operation, PutRequest, RangeRequest, RangeResponse,
    RequestOp, TxnRequest, TxnResponse, WatchCreateRequest, WatchRequest, WatchResponse,
};
use http::uri::PathAndQuery;
use std::error::Error;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio_stream::StreamExt as _;
use tonic::client::Grpc;
use tonic::transport::{Certificate, Channel, ClientTlsConfig, Endpoint, Identity};
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

/// The time limit for the answer to a call, if etcd runs on only one machine.
const CALL: Duration = Duration::from_secs(1);
/// The time limit for the answer to a call, if etcd runs on several machines. With this limit, a member can call two machines of etcd, one after the
/// other, before its proof expires. The proof shows that the facts of the member are current, and is valid for the time Δ (`delta.rs`).
const TURN: Duration = Duration::from_millis(400);
/// How often a silent connection is tested. If a client tests a connection more often than every 5 s, etcd closes the connection.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// The size of the largest answer, in bytes. An answer of this size has room for 100 entries of the log.
const ANSWER_BYTES_MAX: usize = 128 << 20;

/// Why a call to etcd failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EtcdError {
    /// No machine of etcd answered, or fewer than a majority of the machines work. It is not known whether the call was carried out.
    #[error(
        "etcd does not answer: {0}; check its addresses in enfilade.toml, the certificates if it uses TLS, and `etcdctl endpoint health`"
    )]
    Unavailable(String),
    /// etcd refused the call.
    #[error("etcd refused the call: {0}; look at the log of etcd")]
    Refused(String),
    /// A certificate or key cannot be used.
    #[error(
        "TLS to etcd cannot be used: {0}; look at `fleet.ca`, `fleet.certificate` and `fleet.key` in enfilade.toml"
    )]
    BadTls(String),
    /// An address is not a URL.
    #[error("`{0}` is not the URL of a machine of etcd: write it like http://127.0.0.1:2379")]
    BadAddress(String),
}

/// Mutual TLS with etcd: the certificates of etcd's authority, and the certificate and key with which this machine authenticates. All of them are in
/// PEM.
#[derive(Clone)]
pub struct Tls {
    /// The certificates of the authority.
    pub ca: Vec<u8>,
    /// The certificate of this machine, with its chain.
    pub certificate: Vec<u8>,
    /// The private key of this machine.
    pub key: Vec<u8>,
}

/// A client of etcd, with the addresses of its machines. All calls go to one machine of etcd. If it does not answer a call, the next calls go to the
/// next machine.
#[derive(Clone, Debug)]
pub struct Etcd {
    machines: Arc<[Machine]>,
    /// How many times the calls moved to the next machine, because a machine did not answer. This number, modulo the number of machines, is the index
    /// of the machine that gets the next call.
    asked: Arc<AtomicUsize>,
}

#[derive(Debug)]
struct Machine {
    endpoint: Endpoint,
    /// The channel. Its tasks run in the async runtime in which the channel is made, so the first call makes the channel.
    channel: OnceLock<Channel>,
}

impl Etcd {
    /// A client of etcd at these addresses. The connection is made with the first call, and made again after it was lost.
    ///
    /// # Errors
    /// When an address is not a URL, or a certificate cannot be used.
    pub fn at(addresses: &[String], tls: Option<&Tls>) -> Result<Self, EtcdError> {
        let endpoint = |address: &String| {
            let found = Endpoint::from_shared(address.clone());
            let mut found = found.map_err(|_| EtcdError::BadAddress(address.clone()))?;
            if let Some(tls) = tls {
                let config = ClientTlsConfig::new()
                    .ca_certificate(Certificate::from_pem(&tls.ca))
                    .identity(Identity::from_pem(&tls.certificate, &tls.key));
                found = found.tls_config(config).map_err(|why| EtcdError::BadTls(why.to_string()))?;
            }
            let endpoint = found
                .connect_timeout(TURN)
                .http2_keep_alive_interval(KEEP_ALIVE)
                .keep_alive_timeout(CALL)
                .keep_alive_while_idle(true);
            Ok(Machine { endpoint, channel: OnceLock::new() })
        };
        let machines = addresses.iter().map(endpoint).collect::<Result<_, EtcdError>>()?;
        Ok(Etcd { machines, asked: Arc::default() })
    }

    /// The values of the keys from `key` (inclusive) to `end` (exclusive), in the order of the keys, at most `most` of them. If `end` is empty, only
    /// `key` is read. A majority of etcd's machines must confirm the answer. So the answer contains every write that etcd acknowledged before the
    /// read.
    pub(crate) async fn read(
        &self,
        key: Vec<u8>,
        end: Vec<u8>,
        most: i64,
    ) -> Result<Vec<KeyValue>, EtcdError> {
        let request = RangeRequest { key, range_end: end, limit: most, keys_only: false };
        let response: RangeResponse = self.call_each("/etcdserverpb.KV/Range", request).await?;
        Ok(response.kvs)
    }

    /// Carries out all operations at once, if all conditions hold. Returns the results of the reads, in their order; `None` if a condition does not
    /// hold.
    pub(crate) async fn transact(
        &self,
        conditions: Vec<Compare>,
        operations: Vec<Operation>,
    ) -> Result<Option<Vec<Vec<KeyValue>>>, EtcdError> {
        let success: Vec<RequestOp> =
            operations.into_iter().map(|operation| RequestOp { operation: Some(operation) }).collect();
        let only_reads =
            success.iter().all(|request| matches!(request.operation, Some(Operation::Range(_)) | None));
        let request = TxnRequest { compare: conditions, success };
        let path = "/etcdserverpb.KV/Txn";
        let response: TxnResponse = match only_reads {
            true => self.call_each(path, request).await?,
            // A transaction that writes is sent only once. If it were sent again, etcd might carry it out twice. The caller decides whether to send
            // the transaction again.
            false => self.call(path, request).await?,
        };
        let found = response.responses.into_iter().filter_map(|response| Some(response.range?.kvs));
        Ok(response.succeeded.then(|| found.collect()))
    }

    /// Begins a lease of this many seconds.
    pub(crate) async fn lease(&self, seconds: i64) -> Result<i64, EtcdError> {
        let granted: LeaseGrantResponse =
            self.call("/etcdserverpb.Lease/LeaseGrant", LeaseGrantRequest { ttl: seconds }).await?;
        Ok(granted.id)
    }

    /// Renews a lease. Returns whether the lease still existed. In etcd's API the call is a stream, and this client uses one message of the stream.
    pub(crate) async fn renew(&self, lease: i64) -> Result<bool, EtcdError> {
        let request = LeaseKeepAliveRequest { id: lease };
        let kept: LeaseKeepAliveResponse =
            self.call_each("/etcdserverpb.Lease/LeaseKeepAlive", request).await?;
        Ok(kept.ttl > 0)
    }

    /// Calls `changed` after each change of a key from `key` (inclusive) to `end` (exclusive), until the connection ends or the calls go to another
    /// machine. For a deleted key, `changed` gets no value. A change can be reported late, or not at all. But if a change is reported, it was
    /// committed.
    pub(crate) async fn watch(
        &self,
        (key, end): (Vec<u8>, Vec<u8>),
        changed: impl Fn(&[u8], Option<Vec<u8>>),
    ) -> Result<(), EtcdError> {
        let request = WatchRequest { create: Some(WatchCreateRequest { key, range_end: end }) };
        // etcd ends the watch when the stream of requests ends, so this stream never ends.
        let requests = tokio_stream::once(request).chain(tokio_stream::pending());
        let (asked, channel) = self.channel()?;
        let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        grpc.ready().await.map_err(|why| EtcdError::Unavailable(causes(&why)))?;
        let codec = ProstCodec::<WatchRequest, WatchResponse>::default();
        let path = PathAndQuery::from_static("/etcdserverpb.Watch/Watch");
        let answers = grpc.streaming(Request::new(requests), path, codec).await;
        let mut answers = answers.map_err(|status| failed(&status))?.into_inner();
        // A machine that hangs sends nothing, and does not end the connection. So the watch also ends when calls go to another machine.
        while self.asked.load(Ordering::Relaxed) == asked {
            let Ok(answer) = tokio::time::timeout(TURN, answers.message()).await else { continue };
            let answer = answer.map_err(|status| failed(&status))?;
            let Some(answer) = answer.filter(|answer| !answer.canceled) else { break };
            for Event { kind, kv } in answer.events {
                if let Some(KeyValue { key, value }) = kv {
                    changed(&key, (kind == 0).then_some(value));
                }
            }
        }
        Ok(())
    }

    /// The machine of etcd that gets the calls: its index, and the connection to it.
    fn channel(&self) -> Result<(usize, Channel), EtcdError> {
        let asked = self.asked.load(Ordering::Relaxed);
        let machine = asked.checked_rem(self.machines.len()).and_then(|nth| self.machines.get(nth));
        let machine = machine.ok_or_else(|| EtcdError::Unavailable("no address is known".to_owned()))?;
        Ok((asked, machine.channel.get_or_init(|| machine.endpoint.connect_lazy()).clone()))
    }

    /// Makes a call that does no harm if it is carried out twice. If a machine does not answer, the call goes to the next machine.
    async fn call_each<Q, A>(&self, path: &'static str, request: Q) -> Result<A, EtcdError>
    where
        Q: prost::Message + Clone + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        for _ in 1..self.machines.len() {
            match self.call(path, request.clone()).await {
                Err(EtcdError::Unavailable(_)) => {}
                answer => return answer,
            }
        }
        self.call(path, request).await
    }

    async fn call<Q, A>(&self, path: &'static str, request: Q) -> Result<A, EtcdError>
    where
        Q: prost::Message + Send + Sync + 'static,
        A: prost::Message + Default + Send + Sync + 'static,
    {
        let (asked, channel) = self.channel()?;
        let mut grpc = Grpc::new(channel).max_decoding_message_size(ANSWER_BYTES_MAX);
        let called = async {
            grpc.ready().await.map_err(|why| EtcdError::Unavailable(causes(&why)))?;
            let codec = ProstCodec::<Q, A>::default();
            let path = PathAndQuery::from_static(path);
            let response = grpc.unary(Request::new(request), path, codec).await;
            response.map(tonic::Response::into_inner).map_err(|status| failed(&status))
        };
        let limit = if self.machines.len() > 1 { TURN } else { CALL };
        let answer = tokio::time::timeout(limit, called).await.unwrap_or_else(|_| {
            Err(EtcdError::Unavailable(format!("no answer within {} ms", limit.as_millis())))
        });
        if matches!(answer, Err(EtcdError::Unavailable(_))) {
            // If several calls fail at the same time, only one of them selects the next machine.
            let next = asked.wrapping_add(1);
            let _ = self.asked.compare_exchange(asked, next, Ordering::Relaxed, Ordering::Relaxed);
        }
        answer
    }
}

/// The text of an error and of its causes. If a connection failed, the last cause contains the reason, such as a wrong certificate.
fn causes(why: &dyn Error) -> String {
    let mut text = why.to_string();
    let mut cause = why.source();
    while let Some(why) = cause {
        let more = why.to_string();
        if !text.contains(&more) {
            text = format!("{text}: {more}");
        }
        cause = why.source();
    }
    text
}

fn failed(status: &Status) -> EtcdError {
    let text = match status.source() {
        Some(why) => causes(why),
        None => status.message().to_owned(),
    };
    match status.code() {
        Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled | Code::Unknown | Code::Internal => {
            EtcdError::Unavailable(text)
        }
        _ => EtcdError::Refused(text),
    }
}

/// The condition that a key has this value.
pub(crate) fn has_value(key: Vec<u8>, value: Vec<u8>) -> Compare {
    Compare { result: 0, target: 3, key, compared: Some(Compared::Value(value)), range_end: Vec::new() }
}

/// The condition that a key does not exist.
pub(crate) fn is_absent(key: Vec<u8>) -> Compare {
    Compare { result: 0, target: 1, key, compared: Some(Compared::CreateRevision(0)), range_end: Vec::new() }
}

/// The condition that no key from `key` (inclusive) to `end` (exclusive) exists.
pub(crate) fn none_exist(key: Vec<u8>, end: Vec<u8>) -> Compare {
    Compare { range_end: end, ..is_absent(key) }
}

/// The condition that a key exists.
pub(crate) fn exists(key: Vec<u8>) -> Compare {
    Compare { result: 1, target: 1, key, compared: Some(Compared::CreateRevision(0)), range_end: Vec::new() }
}

/// Puts a value.
pub(crate) fn put(key: Vec<u8>, value: Vec<u8>) -> Operation {
    put_leased(key, value, 0)
}

/// Puts a value that etcd deletes when the lease ends.
pub(crate) fn put_leased(key: Vec<u8>, value: Vec<u8>, lease: i64) -> Operation {
    Operation::Put(PutRequest { key, value, lease })
}

/// Reads the keys from `key` (inclusive) to `end` (exclusive). If `end` is empty, only `key` is read.
pub(crate) fn read(key: Vec<u8>, end: Vec<u8>) -> Operation {
    read_some(key, end, 0)
}

/// Reads the keys from `key` (inclusive) to `end` (exclusive), at most `most` of them, in their order. If `most` is 0, all are read.
pub(crate) fn read_some(key: Vec<u8>, end: Vec<u8>, most: i64) -> Operation {
    Operation::Range(RangeRequest { key, range_end: end, limit: most, keys_only: false })
}

/// Like [`read_some`], without the values.
pub(crate) fn read_keys(key: Vec<u8>, end: Vec<u8>, most: i64) -> Operation {
    Operation::Range(RangeRequest { key, range_end: end, limit: most, keys_only: true })
}

/// Deletes the keys from `key` (inclusive) to `end` (exclusive).
pub(crate) fn delete(key: Vec<u8>, end: Vec<u8>) -> Operation {
    Operation::Delete(DeleteRangeRequest { key, range_end: end })
}
