/* The pause program: process 1 of a pod's sandbox, for Linux on arm64.
 *
 * The same program as pause.amd64.S, step by step; its head says what it does and why.
 */
        .text
        .globl  _start
_start:
        mov     x0, #0                  /* rt_sigprocmask(SIG_BLOCK, waited, 0, 8) */
        adr     x1, waited
        mov     x2, #0
        mov     x3, #8
        mov     x8, #135
        svc     #0

        adr     x19, waited
        ldr     x19, [x19]
        mov     x20, #64                /* for each signal, 64 to 1, ... */
each:
        sub     x21, x20, #1
        lsr     x21, x19, x21
        tbnz    x21, #0, next           /* ... that is not waited for: */
        mov     x0, x20                 /* rt_sigaction(signal, ignored, 0, 8); KILL and STOP refuse */
        adr     x1, ignored
        mov     x2, #0
        mov     x3, #8
        mov     x8, #134
        svc     #0
next:
        subs    x20, x20, #1
        b.ne    each

wait:
        adr     x0, waited              /* rt_sigtimedwait(waited, 0, 0, 8) */
        mov     x1, #0
        mov     x2, #0
        mov     x3, #8
        mov     x8, #137
        svc     #0
        tbnz    w0, #31, wait           /* EINTR after a stop or under a debugger: again */

        mov     x0, #0                  /* exit_group(0) */
        mov     x8, #94
        svc     #0

        .balign 8, 0
waited:                                 /* sigset: INT (2) and TERM (15) */
        .quad   (1 << 1) | (1 << 14)
ignored:                                /* struct sigaction: SIG_IGN, SA_NOCLDWAIT, no restorer, empty mask */
        .quad   1, 2, 0, 0
