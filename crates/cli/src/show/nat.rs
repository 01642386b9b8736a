//! `switchpath show nat`: translated connections, and the limits of the table.

use super::ShowView;
use crate::output::{Rows, span};
use anyhow::Result;
use control::api;
use std::io::Write;

impl ShowView for api::NatReply {
    fn table(&self, _: Option<&Self>, out: &mut dyn Write) -> Result<()> {
        if self.most == 0 {
            return Ok(writeln!(out, "no address translation: the configuration has no [nat]")?);
        }
        writeln!(
            out,
            "{} of {} connections, {} created, {} evicted; packets: {} out, {} back, {} errors, {} fragments, {} own, {} refused",
            self.total,
            self.most,
            self.made,
            self.evicted,
            self.out_packets,
            self.back_packets,
            self.error_packets,
            self.fragment_packets,
            self.own_packets,
            self.refused_packets
        )?;
        let most = self.busiest.as_ref();
        let most =
            most.map_or_else(String::new, |host| format!("; most of them by {}: {}", host.address, host.connections));
        writeln!(out, "limit of {} connections for each inside host: {} refused{most}", self.per_host, self.limited)?;
        let mut rows =
            Rows::new(&["protocol", "state", "inside", "outside", "peer", ">out", ">back", ">idle", ">left"]);
        for connection in &self.connections {
            let heard = if connection.replied { "" } else { ", unanswered" };
            rows.add([
                connection.protocol.clone(),
                format!("{}{heard}", connection.state),
                connection.inside.clone(),
                connection.outside.clone(),
                connection.peer.clone(),
                connection.out_packets.to_string(),
                connection.back_packets.to_string(),
                span(connection.idle_ns),
                span(connection.left_ns),
            ]);
        }
        rows.print(out)?;
        if self.truncated {
            writeln!(out, "and more: see --limit")?;
        }
        Ok(())
    }
}
