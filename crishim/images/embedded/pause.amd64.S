/* The pause program: process 1 of a pod's sandbox, for Linux on amd64.
 *
 * It holds the sandbox's namespaces and nothing else: it waits for TERM or INT and exits with status 0.
 *
 * - TERM and INT are blocked and fetched one at a time with rt_sigtimedwait.  The kernel drops signals without a handler for
 *   the first process of a PID namespace, but never blocked ones; and no handler is needed.  They are blocked first of
 *   all, so that one which comes early waits instead of being lost.
 * - All other signals are ignored, so that it behaves the same when it is not process 1 (host PID namespace).
 *   SIGCHLD among them: then the kernel reaps each child, orphans that were given to us included, and leaves no zombie.
 *
 * Position independent, no data that is written, no stack used: build.py puts these bytes behind an ELF header.
 */
        .text
        .globl  _start
_start:
        xorl    %edi, %edi              /* rt_sigprocmask(SIG_BLOCK, waited, 0, 8) */
        leaq    waited(%rip), %rsi
        xorl    %edx, %edx
        movl    $8, %r10d
        movl    $14, %eax
        syscall

        movl    $64, %ebx               /* for each signal, 64 to 1, ... */
each:
        leal    -1(%rbx), %ecx
        btq     %rcx, waited(%rip)      /* ... that is not waited for: */
        jc      next
        movl    %ebx, %edi              /* rt_sigaction(signal, ignored, 0, 8); KILL and STOP refuse */
        leaq    ignored(%rip), %rsi
        xorl    %edx, %edx
        movl    $8, %r10d
        movl    $13, %eax
        syscall
next:
        decl    %ebx
        jnz     each

wait:
        leaq    waited(%rip), %rdi      /* rt_sigtimedwait(waited, 0, 0, 8) */
        xorl    %esi, %esi
        xorl    %edx, %edx
        movl    $8, %r10d
        movl    $128, %eax
        syscall
        testl   %eax, %eax              /* EINTR after a stop or under a debugger: again */
        js      wait

        xorl    %edi, %edi              /* exit_group(0) */
        movl    $231, %eax
        syscall

        .balign 8, 0
waited:                                 /* sigset: INT (2) and TERM (15) */
        .quad   (1 << 1) | (1 << 14)
ignored:                                /* struct sigaction: SIG_IGN, SA_NOCLDWAIT, no restorer, empty mask */
        .quad   1, 2, 0, 0
