//! Users and groups of this machine from passwd(5) and group(5). Accounts that only a directory service knows have numbers but no names here: the
//! process loads no name service modules.

use std::fs;

/// A user of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct User {
    /// The name.
    pub name: String,
    /// The number.
    pub uid: u32,
    /// The number of the user's own group.
    pub gid: u32,
}

fn parse_user(line: &str) -> Option<User> {
    let mut fields = line.split(':');
    let (name, _, uid, gid) = (fields.next()?, fields.next()?, fields.next()?, fields.next()?);
    Some(User { name: name.to_owned(), uid: uid.parse().ok()?, gid: gid.parse().ok()? })
}

fn parse_group(line: &str) -> Option<(&str, u32, &str)> {
    let mut fields = line.split(':');
    let (name, _, gid) = (fields.next()?, fields.next()?, fields.next()?);
    Some((name, gid.parse().ok()?, fields.next().unwrap_or("")))
}

fn users(text: &str) -> impl Iterator<Item = User> {
    text.lines().filter_map(parse_user)
}

fn find_user(text: &str, name: &str) -> Option<User> {
    let number = name.parse().ok();
    users(text).find(|user| user.name == name || Some(user.uid) == number)
}

fn find_group(text: &str, name: &str) -> Option<u32> {
    let number: Option<u32> = name.parse().ok();
    text.lines().filter_map(parse_group).find(|(group, gid, _)| *group == name || Some(*gid) == number).map(|g| g.1)
}

fn groups_of(text: &str, user: &User) -> Vec<u32> {
    let member = |members: &str| members.split(',').any(|member| member == user.name);
    let named = text.lines().filter_map(parse_group).filter(|(_, _, members)| member(members));
    named.map(|(_, gid, _)| gid).filter(|gid| *gid != user.gid).collect()
}

fn passwd() -> String {
    fs::read_to_string("/etc/passwd").unwrap_or_default()
}

fn group() -> String {
    fs::read_to_string("/etc/group").unwrap_or_default()
}

/// The user of that name or number.
pub fn user(name: &str) -> Option<User> {
    find_user(&passwd(), name)
}

/// The name of a user's number.
pub fn user_name(uid: u32) -> Option<String> {
    users(&passwd()).find(|user| user.uid == uid).map(|user| user.name)
}

/// The number of the group of that name or number.
pub fn group_id(name: &str) -> Option<u32> {
    find_group(&group(), name)
}

/// The groups a user is in besides the user's own.
pub fn supplementary_groups(user: &User) -> Vec<u32> {
    groups_of(&group(), user)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASSWD: &str =
        "root:x:0:0:root:/:/bin/sh\nbroken\n\nswitchpath:x:990:989::/:/usr/sbin/nologin\n42:x:7:7::/:/x\n";
    const GROUP: &str =
        "root:x:0:\nswitchpath:x:989:\nnetops:x:500:alice,switchpath\nempty:x:501\nbad:x:y:switchpath\n";

    #[test]
    fn accounts_are_found_by_name_and_number() {
        let user = find_user(PASSWD, "switchpath").unwrap();
        assert_eq!((user.uid, user.gid), (990, 989));
        assert_eq!(find_user(PASSWD, "990").unwrap(), user);
        assert_eq!(find_user(PASSWD, "nobody"), None);
        for (name, gid) in [("netops", Some(500)), ("500", Some(500)), ("empty", Some(501)), ("bad", None)] {
            assert_eq!(find_group(GROUP, name), gid, "{name}");
        }
        assert_eq!(groups_of(GROUP, &user), [500]);
    }

    #[test]
    fn root_has_a_name_on_this_machine() {
        assert_eq!(user_name(0).as_deref(), Some("root"));
        assert_eq!(user("root").unwrap().uid, 0);
    }
}
