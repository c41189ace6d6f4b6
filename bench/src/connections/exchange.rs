//! The bytes that a client sends on a connection, in each protocol.

/// Makes requests, and finds the ends of responses. A response must have status 200 and the bytes of the file.
pub(super) trait Exchange: Send {
    /// Adds the bytes of the next request.
    fn ask(&mut self, to: &mut Vec<u8>);

    /// Processes received bytes, and adds the bytes that the client must send in return to `owed`. Returns whether the response is complete.
    fn came(&mut self, bytes: &[u8], owed: &mut Vec<u8>) -> Result<bool, String>;
}
