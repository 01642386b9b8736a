//! The directory in which a router finds guests: a configuration's `guest:mine` is the file `mine.wasm`.

use crate::description::{is_name, leak_once};
use crate::function::{self, GuestFunction};
use crate::instruction::{GuestInstruction, InstructionText};
use crate::module::{LARGEST, LoadError};
use crate::program::GuestProgram;
use crate::runtime::Runtime;
use crate::slice_guest::{self, GuestSlice};
use link::{GuestFactory, LinkWires};
use plan::{GuestCode, Guests, InstructionDeclaration};
use schemes::Scheme;
use std::fs::{self, File};
use std::io::{ErrorKind, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use units::declare::Declaration;

/// Compiled programs in the cache, so that programs of previous configurations need not be compiled again.
const MAX_CACHED: usize = 16;
/// The most names that an error lists.
const LISTED: usize = 12;

/// See the [module](self). A file is read each time a configuration names it, and compiled only if its content has changed.
#[derive(Debug)]
pub struct Directory {
    path: PathBuf,
    runtime: Runtime,
    programs: ProgramCache<GuestProgram>,
    /// Tenants name code options, and must not keep the router busy with compiling.
    codes: ProgramCache<GuestSlice>,
}

/// Compiled programs with the bytes they were compiled from, least recently used first.
#[derive(Debug)]
struct ProgramCache<T>(Mutex<Vec<(Vec<u8>, T)>>);

impl<T: Clone> ProgramCache<T> {
    fn get(&self, bytes: Vec<u8>, load: impl FnOnce(&[u8]) -> Result<T, LoadError>) -> Result<T, LoadError> {
        let mut programs = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let place = programs.iter().position(|(known, _)| *known == bytes);
        let entry = match place {
            Some(place) => programs.remove(place),
            None => {
                let program = load(&bytes)?;
                (bytes, program)
            }
        };
        // The entry moves to the end of the list, so the one removed is the least recently used.
        let program = entry.1.clone();
        if programs.len() >= MAX_CACHED {
            programs.remove(0);
        }
        programs.push(entry);
        Ok(program)
    }
}

impl Directory {
    /// Uses the directory at `path`. It need not exist until a configuration names a guest.
    pub fn new(path: &Path, runtime: Runtime) -> Directory {
        let (programs, codes) = (ProgramCache(Mutex::default()), ProgramCache(Mutex::default()));
        Directory { path: path.into(), runtime, programs, codes }
    }

    /// Loads the program of a guest.
    pub fn load(&self, name: &str) -> Result<GuestProgram, LoadError> {
        let (file, bytes) = self.bytes(name)?;
        let program = self.programs.get(bytes, |bytes| GuestProgram::load(bytes, &self.runtime));
        program.map_err(|error| in_file(&file, error))
    }

    /// True if the guest is an ephemeral-state instruction. Only its exports are checked.
    pub fn has_instruction(&self, name: &str) -> bool {
        let of = |bytes: Vec<u8>| crate::instruction::is_instruction(&bytes);
        self.bytes(name).is_ok_and(|(_, bytes)| of(bytes))
    }

    /// True if the guest is a packet function. Only its exports are checked.
    pub fn has_function(&self, name: &str) -> bool {
        self.bytes(name).is_ok_and(|(_, bytes)| function::is_function(&bytes))
    }

    /// Loads a packet function. It is compiled each time: configurations with guest functions are seldom applied.
    pub fn load_function(&self, name: &str) -> Result<GuestFunction, LoadError> {
        let (file, bytes) = self.bytes(name)?;
        GuestFunction::load(&bytes, &self.runtime).map_err(|error| in_file(&file, error))
    }

    /// Loads an instruction. It is compiled each time: configurations with instructions are seldom applied.
    pub fn load_instruction(&self, name: &str) -> Result<GuestInstruction, LoadError> {
        let (file, bytes) = self.bytes(name)?;
        GuestInstruction::load(&bytes, &self.runtime).map_err(|error| in_file(&file, error))
    }

    /// True if the guest is a code option of slices. Only its exports are checked.
    pub fn has_code_option(&self, name: &str) -> bool {
        self.bytes(name).is_ok_and(|(_, bytes)| slice_guest::is_code_option(&bytes))
    }

    /// Loads a code option of slices.
    pub fn load_code_option(&self, name: &str) -> Result<GuestSlice, LoadError> {
        let (file, bytes) = self.bytes(name)?;
        let code = self.codes.get(bytes, |bytes| GuestSlice::load(bytes, &self.runtime));
        code.map_err(|error| in_file(&file, error))
    }

    /// The file of a guest, and its content.
    fn bytes(&self, name: &str) -> Result<(PathBuf, Vec<u8>), LoadError> {
        if !is_name(name) {
            let hint = "a name has at most 32 of a-z, 0-9, - and _, the first one a letter: 'guest:mine' is the file mine.wasm";
            return Err(LoadError::new(format!("'{}' is no guest name", name.escape_debug()), hint));
        }
        let file = self.path.join(name).with_extension("wasm");
        let bytes = read(&file).map_err(|error| match error.kind() {
            ErrorKind::NotFound => self.missing(name),
            _ => LoadError::new(format!("{} cannot be read: {error}", file.display()), "let the router read it"),
        })?;
        Ok((file, bytes))
    }

    fn missing(&self, name: &str) -> LoadError {
        let reason = format!("there is no {name}.wasm in {}", self.path.display());
        let mut names = self.names();
        if names.is_empty() {
            return LoadError::new(
                reason,
                "the directory has no guests: copy the file into it, or name another directory with --guests",
            );
        }
        let more = names.len().saturating_sub(LISTED);
        names.truncate(LISTED);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        LoadError::new(reason, format!("there are {}{more}", names.join(", ")))
    }

    /// The names of all guests in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let files = fs::read_dir(&self.path).into_iter().flatten().flatten();
        let name = |file: fs::DirEntry| {
            Some(file.file_name().to_str()?.strip_suffix(".wasm").filter(|name| is_name(name))?.to_string())
        };
        let mut names: Vec<String> = files.filter_map(name).collect();
        names.sort();
        names
    }
}

fn in_file(file: &Path, error: LoadError) -> LoadError {
    LoadError { reason: format!("{}: {}", file.display(), error.reason), ..error }
}

fn read(file: &Path) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // One byte more than the limit is read, so that the size check finds a file that is too large.
    File::open(file)?.take(LARGEST as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}

impl Guests for Directory {
    fn find(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let program = self.load(name).map_err(|LoadError { reason, hint }| (reason, hint))?;
        let declaration = program.declared().declaration(&format!("guest:{name}"));
        let digest = program.digest();
        Ok((declaration, link::guest_code(digest, Arc::new(program))))
    }

    fn function(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let function = self.load_function(name).map_err(|LoadError { reason, hint }| (reason, hint))?;
        let declaration = function.declared().declaration(&format!("guest:{name}"));
        Ok((declaration, plane::function::function_code(function.digest(), Arc::new(function))))
    }

    fn code_option(&self, name: &str) -> Result<(Declaration, GuestCode), (String, String)> {
        let guest = self.load_code_option(name).map_err(|LoadError { reason, hint }| (reason, hint))?;
        let declaration = guest.declared().declaration(&format!("guest:{name}"));
        Ok((declaration, slice::code::guest_code(guest.digest(), Arc::new(guest))))
    }

    fn instruction(&self, name: &str) -> Result<(InstructionDeclaration, GuestCode), (String, String)> {
        let instruction = self.load_instruction(name).map_err(|LoadError { reason, hint }| (reason, hint))?;
        let InstructionText { summary, tags, creates } = instruction.text();
        let declared = InstructionDeclaration {
            name: leak_once(name),
            summary: leak_once(summary),
            tags: *tags,
            creates: *creates,
        };
        Ok((declared, plane::instructions::code(instruction.digest(), Arc::new(instruction))))
    }
}

impl GuestFactory for GuestProgram {
    fn make(&self, options: &[u64]) -> Result<Box<dyn Scheme<LinkWires>>, String> {
        self.guest(options)
            .map(|guest| Box::new(guest) as Box<dyn Scheme<LinkWires>>)
            .map_err(|error| error.to_string())
    }
}
