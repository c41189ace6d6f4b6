use super::*;

#[test]
fn a_request_is_counted_by_method_status_face_and_duration() {
    let metrics = Metrics::default();
    let event = |face, verb: &str, status, millis, bytes| {
        let route = if face == "webdav" { "/dav/" } else { "" };
        let event = Event { face, route, verb: verb.into(), status, millis, bytes, ..Event::default() };
        metrics.count(&event, false);
    };
    event("webdav", "PUT", 201, 5, 7);
    event("webdav", "GET", 200, 6, 11);
    event("webdav", "GET", 404, 31_000, 13);
    event("", "BREW", 0, 0, 0);
    metrics.door_took(TimedDoor::Identity, Duration::from_micros(11));
    metrics.door_took(TimedDoor::Identity, Duration::from_secs(60));
    let mut text = String::new();
    metrics.render_answers(&mut text);
    for line in [
        "enfilade_responses_total{method=\"GET\",status=\"2xx\"} 1",
        "enfilade_responses_total{method=\"GET\",status=\"4xx\"} 1",
        "enfilade_responses_total{method=\"PUT\",status=\"2xx\"} 1",
        "enfilade_responses_total{method=\"other\",status=\"none\"} 1",
        "enfilade_request_duration_seconds_bucket{face=\"webdav\",route=\"/dav/\",le=\"0.005\"} 1",
        "enfilade_request_duration_seconds_bucket{face=\"webdav\",route=\"/dav/\",le=\"0.010\"} 2",
        "enfilade_request_duration_seconds_bucket{face=\"webdav\",route=\"/dav/\",le=\"30.000\"} 2",
        "enfilade_request_duration_seconds_bucket{face=\"webdav\",route=\"/dav/\",le=\"+Inf\"} 3",
        "enfilade_request_duration_seconds_sum{face=\"webdav\",route=\"/dav/\"} 31.011",
        "enfilade_request_duration_seconds_count{face=\"webdav\",route=\"/dav/\"} 3",
        "enfilade_request_duration_seconds_count{face=\"none\",route=\"none\"} 1",
        "enfilade_door_duration_seconds_bucket{door=\"identity\",le=\"0.000010\"} 0",
        "enfilade_door_duration_seconds_bucket{door=\"identity\",le=\"0.000025\"} 1",
        "enfilade_door_duration_seconds_bucket{door=\"identity\",le=\"10.000\"} 1",
        "enfilade_door_duration_seconds_sum{door=\"identity\"} 60.000011",
        "enfilade_door_duration_seconds_count{door=\"identity\"} 2",
        "enfilade_door_duration_seconds_count{door=\"tls\"} 0",
    ] {
        assert!(text.lines().any(|one| one == line), "{line}: {text}");
    }
    assert_eq!(text.matches("enfilade_responses_total{").count(), 4);
    let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    assert_eq!((read(&metrics.bytes_in), read(&metrics.bytes_out)), (7, 24));
}

#[test]
fn the_state_of_acme_has_samples_only_if_there_is_one() {
    let metrics = Metrics::default();
    let samples = || {
        let mut text = String::new();
        metrics.render_acme(&mut text);
        text.lines().filter(|line| !line.starts_with('#')).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(samples(), [""; 0]);
    metrics.set_acme(AcmeState { obtained: None, has_failed: true, next: Some(7) });
    assert_eq!(samples(), ["enfilade_acme_failed 1", "enfilade_acme_next_attempt_timestamp_seconds 7"]);
    metrics.set_acme(AcmeState { obtained: Some(9), has_failed: false, next: None });
    assert_eq!(samples(), ["enfilade_acme_obtained_timestamp_seconds 9", "enfilade_acme_failed 0"]);
}
