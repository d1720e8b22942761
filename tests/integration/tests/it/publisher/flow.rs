//! Back-pressure, pages in flight, closing, and what rest costs.

use std::process::{Command, Stdio};
use std::time::Duration;

use fencepost_integration::kafka::Kafka;
use fencepost_integration::wait;
use fencepost_relay::publisher::Publisher;

use super::{DEADLINE, Rig, message, settings};

#[tokio::test]
async fn b59_a_full_client_queue_is_back_pressure_and_nothing_else() {
    let topic = Kafka::shared().topic("b59", 2).await;
    let mut narrow = settings(&Kafka::shared());
    narrow.properties.insert("queue.buffering.max.messages".into(), "100".into());
    let mut rig = Rig::start(&narrow);
    let messages: Vec<_> = (0..2_000).map(|number| message(topic.name(), number, b"payload")).collect();
    assert_eq!(rig.publish(&messages[..1]).await, None);
    rig.full = 0;
    assert_eq!(rig.publish(&messages[1..]).await, None);
    assert!(rig.full > 0, "the queue was never full: the test shows nothing");
    assert_eq!(topic.read_to_end(DEADLINE).await.len(), 2_000);
    assert_eq!(rig.publisher.in_flight(), 0);
    rig.close().await;
}

#[tokio::test]
async fn all_slots_may_be_in_flight_and_settle_each_by_itself() {
    let topic = Kafka::shared().topic("slots", 4).await;
    let mut rig = Rig::shared();
    rig.publisher.check_route(topic.name()).await.expect("the topic exists");
    for round in 0..5 {
        for slot in 0..rig.publisher.slots() {
            let first = (round * 3 + slot as u32) * 500;
            let page: Vec<_> = (first..first + 500).map(|number| message(topic.name(), number, b"payload")).collect();
            rig.send(slot, &page).await;
        }
        let mut open: Vec<usize> = (0..rig.publisher.slots()).collect();
        while !open.is_empty() {
            let settled = rig.event("a slot settled", |event| matches!(event, super::Event::Settled(_))).await;
            let super::Event::Settled(slot) = settled else { unreachable!("the event that was waited for") };
            let at = open.iter().position(|waiting| *waiting == slot).expect("each settles once");
            open.swap_remove(at);
            assert_eq!(rig.publisher.failures(slot), None);
        }
    }
    assert_eq!(topic.read_to_end(DEADLINE).await.len(), 7_500);
    rig.close().await;
}

#[tokio::test]
async fn an_empty_page_settles_and_the_cluster_tells_its_id() {
    let mut rig = Rig::shared();
    rig.send(1, &[]).await;
    assert_eq!(rig.settled(1).await, None);
    let id = rig.publisher.cluster_id(DEADLINE).await.expect("a broker that answers");
    assert!(!id.is_empty());
    rig.close().await;
}

/// The child does nothing but hold an idle publisher; nothing else of this program's tests runs in it.
#[tokio::test]
async fn a_publisher_at_rest_costs_less_than_a_third_of_a_percent_of_a_core() {
    const REST: Duration = Duration::from_secs(10);
    let program = std::env::current_exe().expect("a process knows its own program");
    let mut child = Command::new(program)
        .args(["--exact", "publisher::flow::child_at_rest", "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("this program starts");
    let pid = child.id();
    wait::until(DEADLINE, "the child's producer has connected and rests", async || {
        let before = cpu_ms(pid);
        wait::hold(Duration::from_millis(500)).await;
        before > 0.0 && cpu_ms(pid) - before == 0.0
    })
    .await;
    let before = cpu_ms(pid);
    wait::hold(REST).await;
    let percent = (cpu_ms(pid) - before) / REST.as_millis() as f64 * 100.0;
    drop(child.stdin.take());
    assert!(child.wait().expect("the child ends").success(), "the child published and closed");
    assert!(percent < 0.3, "{percent:.2} % of a core at rest");
}

#[tokio::test]
#[ignore = "runs as the child process of the test above"]
async fn child_at_rest() {
    let topic = Kafka::shared().topic("rest", 1).await;
    // the interval of the default settings
    let mut settings = settings(&Kafka::shared());
    settings.statistics_interval = Duration::from_secs(5);
    let mut rig = Rig::start(&settings);
    assert_eq!(rig.publish(&[message(topic.name(), 1, b"payload")]).await, None);
    let closed = tokio::task::spawn_blocking(|| std::io::stdin().read_line(&mut String::new()));
    closed.await.expect("no panic").expect("the parent closes it");
    rig.close().await;
}

/// CPU time of a process in ticks of 10 ms.
fn cpu_ms(pid: u32) -> f64 {
    let line = std::fs::read_to_string(format!("/proc/{pid}/stat")).expect("the child lives");
    let (_, rest) = line.rsplit_once(')').expect("a name in parentheses");
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |at: usize| fields[at].parse::<f64>().expect("a number of ticks");
    (ticks(11) + ticks(12)) * 10.0
}
