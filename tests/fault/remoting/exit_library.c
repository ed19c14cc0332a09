#include "tests/fault/remoting/exit_library.h"

#include <stddef.h>

static void (*at_end)(void);

void exit_library_set(void (*call)(void))
{
    at_end = call;
}

__attribute__((destructor)) static void leave(void)
{
    if (at_end)
        at_end();
}
