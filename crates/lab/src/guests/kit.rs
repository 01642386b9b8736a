//! The templates of new guests: the kit of each language, a working scheme, and the published examples. All are compiled into the program.

use cli::arguments::{GuestKind, Language};
use std::path::Path;

/// Placeholder for the guest's name in the files below.
const NAME: &str = "@NAME@";

/// A published guest to start from.
pub struct Example {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its language.
    pub language: Language,
    /// Its kind. Instructions count as schemes: both have the same kit.
    pub kind: GuestKind,
    text: &'static str,
}

const fn scheme(name: &'static str, language: Language, text: &'static str) -> Example {
    Example { name, language, kind: GuestKind::Scheme, text }
}

const fn function(name: &'static str, language: Language, text: &'static str) -> Example {
    Example { name, language, kind: GuestKind::Function, text }
}

/// All examples.
pub const EXAMPLES: &[Example] = &[
    scheme("sfb", Language::Rust, include_str!("../../../../examples/guests/sfb.rs")),
    scheme("mean", Language::Rust, include_str!("../../../../examples/guests/mean.rs")),
    scheme("afd", Language::C, include_str!("../../../../examples/guests/afd.c")),
    scheme("edd", Language::AssemblyScript, include_str!("../../../../examples/guests/edd.ts")),
    function("names", Language::Rust, include_str!("../../../../examples/guests/names.rs")),
    function("dns", Language::Rust, include_str!("../../../../examples/guests/dns.rs")),
    function("capsule", Language::Rust, include_str!("../../../../examples/guests/capsule.rs")),
    function("thin", Language::C, include_str!("../../../../examples/guests/thin.c")),
    function("police", Language::AssemblyScript, include_str!("../../../../examples/guests/police.ts")),
];

/// A file of a kit: its path in the folder, and its text.
type File = (&'static str, &'static str);

const RUST: &[File] = &[
    ("Cargo.toml", include_str!("../../../../sdk/rust/start/Cargo.toml")),
    (".cargo/config.toml", include_str!("../../../../sdk/rust/start/config.toml")),
    (".gitignore", "/target\n/*.wasm\n"),
    ("kit/Cargo.toml", include_str!("../../../../sdk/rust/start/kit.toml")),
    ("kit/src/lib.rs", include_str!("../../../../sdk/rust/src/lib.rs")),
    ("kit/src/block.rs", include_str!("../../../../sdk/rust/src/block.rs")),
    ("kit/src/function.rs", include_str!("../../../../sdk/rust/src/function.rs")),
    ("kit/src/instruction.rs", include_str!("../../../../sdk/rust/src/instruction.rs")),
    ("kit/src/lists.rs", include_str!("../../../../sdk/rust/src/lists.rs")),
    ("kit/src/memory.rs", include_str!("../../../../sdk/rust/src/memory.rs")),
    ("kit/src/mirror.rs", include_str!("../../../../sdk/rust/src/mirror.rs")),
    ("kit/src/ring.rs", include_str!("../../../../sdk/rust/src/ring.rs")),
    ("kit/src/slice.rs", include_str!("../../../../sdk/rust/src/slice.rs")),
    ("kit/src/wires.rs", include_str!("../../../../sdk/rust/src/wires.rs")),
    ("kit/schemes/Cargo.toml", include_str!("../../../../sdk/rust/start/schemes.toml")),
    ("kit/schemes/lib.rs", include_str!("../../../../sdk/rust/start/schemes.rs")),
    ("kit/schemes/wires.rs", include_str!("../../../schemes/src/wires.rs")),
    ("kit/schemes/inspect.rs", include_str!("../../../schemes/src/inspect.rs")),
    ("kit/schemes/model.rs", include_str!("../../../schemes/src/model.rs")),
    ("kit/schemes/conformance.rs", include_str!("../../../schemes/src/conformance.rs")),
    ("kit/units/Cargo.toml", include_str!("../../../../sdk/rust/start/units.toml")),
    ("kit/units/lib.rs", include_str!("../../../../sdk/rust/start/units.rs")),
    ("kit/units/id.rs", include_str!("../../../units/src/id.rs")),
    ("kit/units/quantity.rs", include_str!("../../../units/src/quantity.rs")),
    ("kit/units/size.rs", include_str!("../../../units/src/size.rs")),
    ("kit/units/text.rs", include_str!("../../../units/src/text.rs")),
    ("kit/units/time.rs", include_str!("../../../units/src/time.rs")),
];

const C: &[File] = &[(".gitignore", "/*.wasm\n"), ("switchpath.h", include_str!("../../../../sdk/c/switchpath.h"))];

const C_FUNCTION: &[File] =
    &[(".gitignore", "/*.wasm\n"), ("switchpath_function.h", include_str!("../../../../sdk/c/switchpath_function.h"))];

const C_SLICE: &[File] =
    &[(".gitignore", "/*.wasm\n"), ("switchpath_slice.h", include_str!("../../../../sdk/c/switchpath_slice.h"))];

const ASSEMBLYSCRIPT: &[File] = &[
    ("package.json", include_str!("../../../../sdk/assemblyscript/package.json")),
    ("asconfig.json", include_str!("../../../../sdk/assemblyscript/asconfig.json")),
    (".gitignore", "/node_modules\n/*.wasm\n"),
    ("assembly/tsconfig.json", include_str!("../../../../sdk/assemblyscript/tsconfig.json")),
    ("assembly/switchpath.ts", include_str!("../../../../sdk/assemblyscript/switchpath.ts")),
    ("assembly/exports.ts", include_str!("../../../../sdk/assemblyscript/exports.ts")),
];

const ASSEMBLYSCRIPT_FUNCTION: &[File] = &[
    ("package.json", include_str!("../../../../sdk/assemblyscript/package.json")),
    ("asconfig.json", include_str!("../../../../sdk/assemblyscript/asconfig.json")),
    (".gitignore", "/node_modules\n/*.wasm\n"),
    ("assembly/tsconfig.json", include_str!("../../../../sdk/assemblyscript/tsconfig.json")),
    ("assembly/switchpath.ts", include_str!("../../../../sdk/assemblyscript/function.ts")),
    ("assembly/exports.ts", include_str!("../../../../sdk/assemblyscript/function_exports.ts")),
];

const ASSEMBLYSCRIPT_SLICE: &[File] = &[
    ("package.json", include_str!("../../../../sdk/assemblyscript/package.json")),
    ("asconfig.json", include_str!("../../../../sdk/assemblyscript/asconfig.json")),
    (".gitignore", "/node_modules\n/*.wasm\n"),
    ("assembly/tsconfig.json", include_str!("../../../../sdk/assemblyscript/tsconfig.json")),
    ("assembly/switchpath.ts", include_str!("../../../../sdk/assemblyscript/slice.ts")),
    ("assembly/exports.ts", include_str!("../../../../sdk/assemblyscript/slice_exports.ts")),
];

/// A new guest.
pub struct GuestTemplate {
    /// The file to edit, relative to the folder.
    pub scheme: &'static str,
    /// The kit's name, for readers of the folder.
    pub kit: &'static str,
    /// All files: their paths in the folder, and their texts.
    pub files: Vec<(&'static str, String)>,
}

impl GuestTemplate {
    /// A guest of that name, with a minimal scheme, function or code option, or a published one.
    pub fn new(name: &str, language: Language, kind: GuestKind, example: Option<&Example>) -> GuestTemplate {
        // The files of the kit, its name for readers, the file to edit, and the text of that.
        let (kit, place, scheme, small) = match (language, kind) {
            (Language::Rust, kind) => {
                let small = match kind {
                    GuestKind::Scheme => include_str!("../../../../sdk/rust/start/lib.rs"),
                    GuestKind::Function => include_str!("../../../../sdk/rust/start/function.rs"),
                    GuestKind::Slice => include_str!("../../../../sdk/rust/start/slice.rs"),
                };
                (RUST, "kit/", "src/lib.rs", small)
            }
            (Language::C, GuestKind::Scheme) => {
                (C, "switchpath.h", "scheme.c", include_str!("../../../../sdk/c/start.c"))
            }
            (Language::C, GuestKind::Function) => {
                let small = include_str!("../../../../sdk/c/start_function.c");
                (C_FUNCTION, "switchpath_function.h", "function.c", small)
            }
            (Language::C, GuestKind::Slice) => {
                (C_SLICE, "switchpath_slice.h", "slice.c", include_str!("../../../../sdk/c/start_slice.c"))
            }
            (Language::AssemblyScript, kind) => {
                let (kit, small) = match kind {
                    GuestKind::Scheme => (ASSEMBLYSCRIPT, include_str!("../../../../sdk/assemblyscript/start.ts")),
                    GuestKind::Function => {
                        (ASSEMBLYSCRIPT_FUNCTION, include_str!("../../../../sdk/assemblyscript/start_function.ts"))
                    }
                    GuestKind::Slice => {
                        (ASSEMBLYSCRIPT_SLICE, include_str!("../../../../sdk/assemblyscript/start_slice.ts"))
                    }
                };
                (kit, "assembly/switchpath.ts", "assembly/index.ts", small)
            }
        };
        let text = example.map_or(small, |example| example.text);
        let files = [(scheme, text)].into_iter().chain(kit.iter().copied());
        let files = files.map(|(place, text)| (place, text.replace(NAME, name))).collect();
        GuestTemplate { scheme, kit: place, files }
    }
}

impl GuestTemplate {
    /// True if it starts from an instruction of ephemeral state, not from a scheme.
    pub fn is_instruction(&self) -> bool {
        self.files.iter().any(|(place, text)| *place == self.scheme && text.contains("\ninstruction! {"))
    }
}

/// The language of a folder's guest: the first language whose file is in it.
pub fn language_of(folder: &Path) -> Option<Language> {
    if folder.join("Cargo.toml").exists() {
        Some(Language::Rust)
    } else if folder.join("asconfig.json").exists() {
        Some(Language::AssemblyScript)
    } else {
        folder.read_dir().ok()?.flatten().any(|file| is_c(&file.path())).then_some(Language::C)
    }
}

/// True for a source file in C.
pub fn is_c(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "c")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_line_lists_every_example() {
        let names: Vec<&str> = EXAMPLES.iter().map(|example| example.name).collect();
        assert_eq!(names, cli::arguments::EXAMPLE_GUESTS);
    }
}
