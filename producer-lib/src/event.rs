//! Typed events: a domain type that knows how it travels.

use time::OffsetDateTime;

use crate::error::EnqueueError;
use crate::message::{Message, MessageBuilder};

/// A type that can be sent. The implementor chooses the serialization.
///
/// ```
/// use fencepost_producer::OutboxEvent;
///
/// struct OrderPaid {
///     order: u64,
/// }
///
/// impl OutboxEvent for OrderPaid {
///     type Error = std::convert::Infallible;
///
///     fn topic(&self) -> &str {
///         "orders"
///     }
///     fn kind(&self) -> &str {
///         "order.paid"
///     }
///     fn key(&self) -> Option<Vec<u8>> {
///         Some(self.order.to_string().into_bytes())
///     }
///     fn payload(&self) -> Result<Option<Vec<u8>>, Self::Error> {
///         Ok(Some(format!("{{\"order\":{}}}", self.order).into_bytes()))
///     }
///     fn content_type(&self) -> Option<&str> {
///         Some("application/json")
///     }
/// }
///
/// let message = OrderPaid { order: 17 }.to_builder()?.header("traceparent", "00-...").build()?;
/// assert_eq!(message.topic(), "orders");
/// # Ok::<(), fencepost_producer::EnqueueError>(())
/// ```
pub trait OutboxEvent {
    /// Why the payload could not be made. Its text must not quote the content.
    type Error: std::error::Error + Send + Sync + 'static;

    /// The topic.
    fn topic(&self) -> &str;

    /// The CloudEvents type.
    fn kind(&self) -> &str;

    /// Kafka's key: events of one key keep their order.
    fn key(&self) -> Option<Vec<u8>>;

    /// The bytes that Kafka gets; `None` is a tombstone.
    ///
    /// # Errors
    /// When the event can't be serialized.
    fn payload(&self) -> Result<Option<Vec<u8>>, Self::Error>;

    /// Media type of the payload.
    fn content_type(&self) -> Option<&str> {
        None
    }

    /// Whose event it is; `None` is the default tenant.
    fn tenant(&self) -> Option<&str> {
        None
    }

    /// When it happened.
    fn event_time(&self) -> Option<OffsetDateTime> {
        None
    }

    /// A builder with the event's parts, for headers or an id of one's own.
    ///
    /// # Errors
    /// [`EnqueueError::Serialize`].
    fn to_builder(&self) -> Result<MessageBuilder, EnqueueError> {
        let mut builder = match self.payload().map_err(|e| EnqueueError::Serialize(Box::new(e)))? {
            Some(payload) => Message::builder(self.topic(), self.kind(), payload),
            None => Message::tombstone(self.topic(), self.kind()),
        };
        if let Some(key) = self.key() {
            builder = builder.key(key);
        }
        if let Some(tenant) = self.tenant() {
            builder = builder.tenant(tenant);
        }
        if let Some(content_type) = self.content_type() {
            builder = builder.content_type(content_type);
        }
        if let Some(event_time) = self.event_time() {
            builder = builder.event_time(event_time);
        }
        Ok(builder)
    }
}
