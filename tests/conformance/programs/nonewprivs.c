// The program of the image "nonewprivs": says who it effectively is.  Set-user-id root in the image, so that it tells
// whether no_new_privs was on when it was executed.
#include <stdio.h>
#include <unistd.h>

int main(void) {
    printf("Effective uid: %d\n", (int)geteuid());
    return 0;
}
