//! Captures that the sources of a world replay: pcap and pcapng files.

use io::pcap::Reader;
use sim::experiment::DataFiles;
use sim::{CapturedPacket, Captures};
use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use units::Nanos;

/// Reads captures from the world's folder, and the other data files.
pub struct Folder(pub PathBuf, pub DataFiles);

impl Captures for Folder {
    fn read(&mut self, file: &str) -> Result<Vec<CapturedPacket>, String> {
        let path = self.0.join(file);
        let of = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
        let source = File::open(&path).map_err(|error| of(&error))?;
        let mut reader = Reader::new(BufReader::new(source)).map_err(|error| of(&error))?;
        let (mut recorded, mut first) = (Vec::new(), None);
        while let Some(record) = reader.next_record().map_err(|error| of(&error))? {
            let at = record.time.get();
            let start = *first.get_or_insert(at);
            recorded.push(CapturedPacket { after: Nanos::new(at.saturating_sub(start)), frame: record.data.to_vec() });
        }
        Ok(recorded)
    }

    fn bytes(&mut self, file: &str) -> Result<Vec<u8>, String> {
        self.1.read(file)
    }
}
