//! Snapshots through Kafka: a record each in the topic that the server's Kafka fetcher reads.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use chrono::DateTime;
use prost::Message;
use rskafka::BackoffConfig;
use rskafka::client::partition::{Compression, PartitionClient, UnknownTopicHandling};
use rskafka::client::{Client, ClientBuilder};
use rskafka::record::Record;
use thiserror::Error;
use tokio::time::{sleep, timeout};

use crate::oap::Backoff;
use crate::oap::messages::ThreadSnapshot;
use crate::stderr::message;

const TOPIC: &str = "skywalking-profilings";
/// How long the brokers may take for a batch.
const ANSWER: Duration = Duration::from_secs(20);
/// How long the client tries by itself.
const PATIENCE: Duration = Duration::from_secs(10);

#[derive(Debug, Error)]
enum Failed {
    #[error(transparent)]
    Client(#[from] rskafka::client::error::Error),
    #[error(
        "there is no topic {TOPIC}; SkyWalking's server creates it, if its kafka-fetcher is on"
    )]
    NoTopic,
    #[error("no answer within {} s", ANSWER.as_secs())]
    TimeOut,
}

/// The brokers.
pub(crate) struct Kafka {
    brokers: Vec<String>,
    /// The topic's partitions, once it was found.
    partitions: RefCell<Option<Partitions>>,
}

struct Partitions {
    client: Client,
    ids: Vec<i32>,
}

impl Kafka {
    pub(crate) fn new(brokers: Vec<String>) -> Self {
        Self { brokers, partitions: RefCell::new(None) }
    }

    /// Sends a batch of one request's snapshots. Lost brokers are no error: it lasts until they are back.
    pub(crate) async fn send(&self, batch: &[ThreadSnapshot]) {
        let mut lost: Option<(Instant, Backoff)> = None;
        loop {
            let sent = timeout(ANSWER, self.try_send(batch)).await;
            let Err(error) = sent.unwrap_or(Err(Failed::TimeOut)) else { break };
            self.partitions.take();
            let (_, backoff) = lost.get_or_insert_with(|| {
                message!("lost Kafka at {}: {error}; trying again", self.brokers.join(", "));
                (Instant::now(), Backoff::default())
            });
            sleep(backoff.next()).await;
        }
        if let Some((since, _)) = lost {
            message!("connected to Kafka after {} s", since.elapsed().as_secs());
        }
    }

    async fn try_send(&self, snapshots: &[ThreadSnapshot]) -> Result<(), Failed> {
        let partition = self.partition(snapshots).await?;
        let records = snapshots.iter().map(record).collect();
        partition.produce(records, Compression::NoCompression).await?;
        Ok(())
    }

    /// A partition for a request: always the same, so its snapshots stay in order.
    async fn partition(&self, snapshots: &[ThreadSnapshot]) -> Result<PartitionClient, Failed> {
        let partitions = match self.partitions.take() {
            Some(partitions) => partitions,
            None => find(&self.brokers).await?,
        };
        let segment = snapshots.first().map_or("", |snapshot| &*snapshot.trace_segment_id);
        let number =
            segment.bytes().fold(0_usize, |sum, byte| sum.wrapping_mul(31) + usize::from(byte));
        let index = number.checked_rem(partitions.ids.len()).ok_or(Failed::NoTopic)?;
        let id = partitions.ids.get(index).copied().unwrap_or(0);
        let client = partitions.client.partition_client(TOPIC, id, UnknownTopicHandling::Error);
        let client = client.await?;
        self.partitions.replace(Some(partitions));
        Ok(client)
    }
}

async fn find(brokers: &[String]) -> Result<Partitions, Failed> {
    let backoff = BackoffConfig { deadline: Some(PATIENCE), ..BackoffConfig::default() };
    let client = ClientBuilder::new(brokers.to_vec()).client_id("tprofiler");
    let client = client.backoff_config(backoff).build().await?;
    let topic = client.list_topics().await?.into_iter().find(|topic| topic.name == TOPIC);
    let ids = topic.ok_or(Failed::NoTopic)?.partitions.into_iter().collect();
    Ok(Partitions { client, ids })
}

fn record(snapshot: &ThreadSnapshot) -> Record {
    Record {
        key: Some(format!("{}{}", snapshot.task_id, snapshot.sequence).into_bytes()),
        value: Some(snapshot.encode_to_vec()),
        headers: BTreeMap::new(),
        // Brokers delete old records by it.
        timestamp: DateTime::from_timestamp_millis(snapshot.time).unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oap::messages::ThreadStack;

    #[test]
    fn a_record_has_the_key_and_value_that_the_fetcher_reads() {
        let stack = Some(ThreadStack { code_signatures: vec!["a.B.c:1".into()] });
        let task_id = "t".into();
        let snapshot = ThreadSnapshot { task_id, sequence: 7, stack, ..ThreadSnapshot::default() };
        let record = record(&snapshot);
        assert_eq!(record.key.unwrap(), b"t7");
        assert_eq!(ThreadSnapshot::decode(&*record.value.unwrap()).unwrap(), snapshot);
    }
}
