//! Restricts the system calls of the router (seccomp(2)): a program for the kernel's classic BPF.
//!
//! A call that is not in [`ALLOWED`] fails with EPERM and is logged by the kernel (`SECCOMP` in `dmesg` or the audit log). A call missing from the
//! list therefore fails one operation and does not end the router. A port that needs another call adds it to the list with its reason.

use std::io;

/// The calls, by purpose.
const ALLOWED: &[(&str, &[libc::c_long])] = &[
    (
        "memory: frames, rings, stacks of threads (mmap and mprotect: see EXECUTABLE)",
        &[libc::SYS_munmap, libc::SYS_mremap, libc::SYS_madvise, libc::SYS_brk, libc::SYS_mlock, libc::SYS_mlock2],
    ),
    ("memory of another size: memif regions", &[libc::SYS_munlock, libc::SYS_mincore, libc::SYS_memfd_create]),
    (
        "threads: workers, closers, captures (clone and clone3: see THREADS)",
        &[
            libc::SYS_futex,
            libc::SYS_set_robust_list,
            libc::SYS_get_robust_list,
            libc::SYS_rseq,
            libc::SYS_set_tid_address,
            libc::SYS_gettid,
            libc::SYS_exit,
            libc::SYS_exit_group,
            libc::SYS_sched_yield,
            libc::SYS_membarrier,
            libc::SYS_getcpu,
        ],
    ),
    (
        "processors: workers on cores of their own",
        &[
            libc::SYS_sched_getaffinity,
            libc::SYS_sched_setaffinity,
            libc::SYS_sched_getscheduler,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_getparam,
            libc::SYS_sched_setattr,
            libc::SYS_getpriority,
            libc::SYS_setpriority,
        ],
    ),
    ("names of threads and of memory", &[libc::SYS_prctl]),
    (
        "signals: SIGHUP, SIGTERM; tgkill for abort(3)",
        &[
            libc::SYS_rt_sigaction,
            libc::SYS_rt_sigprocmask,
            libc::SYS_rt_sigreturn,
            libc::SYS_rt_sigtimedwait,
            libc::SYS_sigaltstack,
            libc::SYS_tgkill,
            libc::SYS_restart_syscall,
        ],
    ),
    (
        "time",
        &[
            libc::SYS_clock_gettime,
            libc::SYS_clock_getres,
            libc::SYS_clock_nanosleep,
            libc::SYS_nanosleep,
            libc::SYS_gettimeofday,
            libc::SYS_timerfd_create,
            libc::SYS_timerfd_settime,
        ],
    ),
    (
        "waiting: workers, the server of the API",
        &[
            libc::SYS_ppoll,
            libc::SYS_pselect6,
            libc::SYS_epoll_create1,
            libc::SYS_epoll_ctl,
            libc::SYS_epoll_pwait,
            libc::SYS_epoll_pwait2,
            libc::SYS_eventfd2,
        ],
    ),
    (
        "files: configurations, captures, the history (which of them: see the module `files`)",
        &[
            libc::SYS_openat,
            libc::SYS_openat2,
            libc::SYS_close,
            libc::SYS_read,
            libc::SYS_write,
            libc::SYS_readv,
            libc::SYS_writev,
            libc::SYS_pread64,
            libc::SYS_pwrite64,
            libc::SYS_lseek,
            libc::SYS_fstat,
            libc::SYS_newfstatat,
            libc::SYS_statx,
            libc::SYS_statfs,
            libc::SYS_fstatfs,
            libc::SYS_getdents64,
            libc::SYS_readlinkat,
            libc::SYS_faccessat,
            libc::SYS_faccessat2,
            libc::SYS_getcwd,
            libc::SYS_fcntl,
            libc::SYS_flock,
            libc::SYS_dup,
            libc::SYS_dup3,
            libc::SYS_pipe2,
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_ftruncate,
            libc::SYS_fallocate,
            libc::SYS_renameat,
            libc::SYS_renameat2,
            libc::SYS_unlinkat,
            libc::SYS_mkdirat,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            libc::SYS_fadvise64,
        ],
    ),
    ("copying between files (std::io::copy)", &[libc::SYS_copy_file_range, libc::SYS_sendfile, libc::SYS_splice]),
    (
        "sockets: the API, packet ports, netlink, memif (socket: see FAMILIES)",
        &[
            libc::SYS_socketpair,
            libc::SYS_bind,
            libc::SYS_connect,
            libc::SYS_listen,
            libc::SYS_accept4,
            libc::SYS_getsockname,
            libc::SYS_getpeername,
            libc::SYS_getsockopt,
            libc::SYS_setsockopt,
            libc::SYS_sendto,
            libc::SYS_recvfrom,
            libc::SYS_sendmsg,
            libc::SYS_recvmsg,
            libc::SYS_sendmmsg,
            libc::SYS_recvmmsg,
            libc::SYS_shutdown,
        ],
    ),
    ("flags and offloads of interfaces, tap devices", &[libc::SYS_ioctl]),
    ("XDP programs, and keeping the host's stack out of a port", &[libc::SYS_bpf]),
    (
        "who and where this is",
        &[
            libc::SYS_getuid,
            libc::SYS_geteuid,
            libc::SYS_getgid,
            libc::SYS_getegid,
            libc::SYS_getgroups,
            libc::SYS_getpid,
            libc::SYS_getppid,
            libc::SYS_capget,
            libc::SYS_uname,
            libc::SYS_sysinfo,
            libc::SYS_getrusage,
            libc::SYS_prlimit64,
            libc::SYS_getrandom,
        ],
    ),
];

/// The same calls by the names that only older architectures have.
#[cfg(target_arch = "x86_64")]
const ALLOWED_HERE: &[libc::c_long] = &[
    libc::SYS_poll,
    libc::SYS_select,
    libc::SYS_epoll_wait,
    libc::SYS_access,
    libc::SYS_rename,
    libc::SYS_unlink,
    libc::SYS_mkdir,
    libc::SYS_readlink,
    libc::SYS_chmod,
    libc::SYS_accept,
    libc::SYS_dup2,
    libc::SYS_pipe,
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_time,
];
#[cfg(not(target_arch = "x86_64"))]
const ALLOWED_HERE: &[libc::c_long] = &[libc::SYS_accept];

/// Address families that a socket may have.
const FAMILIES: &[libc::c_int] =
    &[libc::AF_UNIX, libc::AF_INET, libc::AF_INET6, libc::AF_NETLINK, libc::AF_PACKET, libc::AF_XDP];

/// No thread needs new namespaces: these flags of clone(2) are refused. The filter cannot read the flags of clone3(2), which are in memory. It
/// returns ENOSYS for clone3, and the C library then uses clone.
const NAMESPACES: u32 = (libc::CLONE_NEWUSER
    | libc::CLONE_NEWNS
    | libc::CLONE_NEWNET
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWCGROUP) as u32;

/// No memory becomes executable, unless guests are compiled.
const EXECUTABLE: u32 = libc::PROT_EXEC as u32;

#[cfg(target_arch = "x86_64")]
const ARCHITECTURE: u32 = 0xc000_003e; // AUDIT_ARCH_X86_64
#[cfg(target_arch = "aarch64")]
const ARCHITECTURE: u32 = 0xc000_00b7; // AUDIT_ARCH_AARCH64
#[cfg(target_arch = "riscv64")]
const ARCHITECTURE: u32 = 0xc000_00f3; // AUDIT_ARCH_RISCV64

/// Offsets in `struct seccomp_data`.
const NUMBER_AT: u32 = 0;
const ARCHITECTURE_AT: u32 = 4;

/// The low half of an argument. All supported architectures are little-endian.
const fn argument_at(argument: u32) -> u32 {
    16 + 8 * argument
}

const EPERM: u32 = libc::SECCOMP_RET_ERRNO | libc::EPERM as u32;
const ENOSYS: u32 = libc::SECCOMP_RET_ERRNO | libc::ENOSYS as u32;

fn load(at: u32) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16, jt: 0, jf: 0, k: at }
}

fn return_value(value: u32) -> libc::sock_filter {
    libc::sock_filter { code: (libc::BPF_RET | libc::BPF_K) as u16, jt: 0, jf: 0, k: value }
}

/// Skips this many instructions if the test fails.
fn test(kind: u32, value: u32, else_skip: usize) -> libc::sock_filter {
    let jf = u8::try_from(else_skip).expect("a jump is short");
    libc::sock_filter { code: (libc::BPF_JMP | libc::BPF_K | kind) as u16, jt: 0, jf, k: value }
}

/// Runs `then`, which must return a verdict, if the call has this number.
fn match_call(program: &mut Vec<libc::sock_filter>, call: libc::c_long, then: &[libc::sock_filter]) {
    program.push(test(libc::BPF_JEQ, call as u32, then.len()));
    program.extend_from_slice(then);
}

/// The program. `code` permits executable memory.
fn program(code: bool) -> Vec<libc::sock_filter> {
    let allow = return_value(libc::SECCOMP_RET_ALLOW);
    let mut program = vec![
        load(ARCHITECTURE_AT),
        // Calls of another architecture have other numbers, and the router makes none.
        libc::sock_filter { jt: 1, jf: 0, ..test(libc::BPF_JEQ, ARCHITECTURE, 0) },
        return_value(libc::SECCOMP_RET_KILL_PROCESS),
        load(NUMBER_AT),
    ];
    // In any order: since Linux 5.11 the kernel caches which calls are always allowed, and does not run the program for them.
    for (_, calls) in ALLOWED {
        calls.iter().for_each(|&call| match_call(&mut program, call, &[allow]));
    }
    ALLOWED_HERE.iter().for_each(|&call| match_call(&mut program, call, &[allow]));
    match_call(&mut program, libc::SYS_clone3, &[return_value(ENOSYS)]);
    let threads_only = [load(argument_at(0)), test(libc::BPF_JSET, NAMESPACES, 1), return_value(EPERM), allow];
    match_call(&mut program, libc::SYS_clone, &threads_only);
    // A test for no bits never succeeds.
    let none = if code { 0 } else { EXECUTABLE };
    let no_code = [load(argument_at(2)), test(libc::BPF_JSET, none, 1), return_value(EPERM), allow];
    for call in [libc::SYS_mmap, libc::SYS_mprotect] {
        match_call(&mut program, call, &no_code);
    }
    let mut families = vec![load(argument_at(0))];
    for &family in FAMILIES {
        families.extend([test(libc::BPF_JEQ, family as u32, 1), allow]);
    }
    families.push(return_value(EPERM));
    match_call(&mut program, libc::SYS_socket, &families);
    program.push(return_value(EPERM));
    program
}

/// Installs the program on every thread. They have set "no new privileges" before.
pub(super) fn install(code: bool) -> io::Result<()> {
    let program = program(code);
    let whole = libc::sock_fprog { len: program.len() as u16, filter: program.as_ptr().cast_mut() };
    let flags = libc::SECCOMP_FILTER_FLAG_TSYNC | libc::SECCOMP_FILTER_FLAG_LOG;
    // SAFETY: `whole` describes `program`, and the kernel only reads them.
    let result = unsafe { libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const whole) };
    match result {
        0 => Ok(()),
        // The id of a thread that already has another filter.
        thread if thread > 0 => Err(io::Error::other(format!("the thread {thread} has a filter of its own"))),
        _ => Err(io::Error::last_os_error()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The program's verdict on a call, by interpreting it like the kernel, with only the instructions that it uses.
    fn verdict(architecture: u32, number: libc::c_long, arguments: [u64; 3]) -> u32 {
        let program = program(false);
        let (mut at, mut accumulator) = (0, 0u32);
        loop {
            let libc::sock_filter { code, jt, jf, k } = program[at];
            at += 1;
            match u32::from(code) {
                code if code == libc::BPF_LD | libc::BPF_W | libc::BPF_ABS => {
                    accumulator = match k {
                        NUMBER_AT => number as u32,
                        ARCHITECTURE_AT => architecture,
                        at => arguments[(at as usize - 16) / 8] as u32,
                    }
                }
                code if code == libc::BPF_RET | libc::BPF_K => return k,
                code => {
                    let met = match code {
                        code if code == libc::BPF_JMP | libc::BPF_K | libc::BPF_JEQ => accumulator == k,
                        code if code == libc::BPF_JMP | libc::BPF_K | libc::BPF_JSET => accumulator & k != 0,
                        other => panic!("instruction {other:#x}"),
                    };
                    at += usize::from(if met { jt } else { jf });
                }
            }
        }
    }

    fn here(number: libc::c_long, arguments: [u64; 3]) -> u32 {
        verdict(ARCHITECTURE, number, arguments)
    }

    #[test]
    fn filter_allows_only_the_listed_calls() {
        for (_, calls) in ALLOWED {
            calls.iter().for_each(|&call| assert_eq!(here(call, [0; 3]), libc::SECCOMP_RET_ALLOW, "{call}"));
        }
        for call in [
            libc::SYS_execve,
            libc::SYS_execveat,
            libc::SYS_ptrace,
            libc::SYS_setuid,
            libc::SYS_capset,
            libc::SYS_mount,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_init_module,
            libc::SYS_kexec_load,
            libc::SYS_keyctl,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_perf_event_open,
            libc::SYS_process_vm_writev,
            libc::SYS_kill,
            libc::SYS_personality,
            100_000,
            // x32: 64-bit calls with an additional bit.
            0x4000_0000 | libc::SYS_read,
        ] {
            assert_eq!(here(call, [0; 3]), EPERM, "{call}");
        }
        assert_eq!(verdict(0x4000_0003, libc::SYS_read, [0; 3]), libc::SECCOMP_RET_KILL_PROCESS);
    }

    #[test]
    fn filter_checks_arguments() {
        let thread = (libc::CLONE_VM | libc::CLONE_THREAD | libc::CLONE_SIGHAND) as u64;
        assert_eq!(here(libc::SYS_clone, [thread, 0, 0]), libc::SECCOMP_RET_ALLOW);
        assert_eq!(here(libc::SYS_clone, [thread | libc::CLONE_NEWUSER as u64, 0, 0]), EPERM);
        assert_eq!(here(libc::SYS_clone3, [0; 3]), ENOSYS);
        for (family, allowed) in
            [(libc::AF_PACKET, true), (libc::AF_NETLINK, true), (libc::AF_VSOCK, false), (77, false)]
        {
            assert_eq!(here(libc::SYS_socket, [family as u64, 0, 0]) == libc::SECCOMP_RET_ALLOW, allowed, "{family}");
        }
        for call in [libc::SYS_mmap, libc::SYS_mprotect] {
            assert_eq!(here(call, [0, 0, 3]), libc::SECCOMP_RET_ALLOW);
            assert_eq!(here(call, [0, 0, 5]), EPERM);
        }
    }

    #[test]
    fn every_call_is_listed_once() {
        let mut all: Vec<_> = ALLOWED.iter().flat_map(|(_, calls)| *calls).chain(ALLOWED_HERE).collect();
        all.sort();
        assert!(all.windows(2).all(|pair| pair[0] != pair[1]), "{all:?}");
        // The kernel's limit (BPF_MAXINSNS).
        assert!(program(true).len() <= 4096);
    }
}
