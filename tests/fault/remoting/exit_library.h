/* exit_library.h - a library whose destructor calls back: linked behind the CUDA libraries, it ends after
 * them; closed with dlclose, it ends at that moment. */
#ifndef EXIT_LIBRARY_H
#define EXIT_LIBRARY_H

/* What the destructor shall call; NULL: nothing. */
__attribute__((visibility("default"))) void exit_library_set(void (*call)(void));

#endif
