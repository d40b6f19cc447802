// What the library says of itself.

#include "kernels.h"

// The number of the interface: it changes whenever a function's arguments or a layout do.
EXPORT int headrace_abi() { return 6; }
