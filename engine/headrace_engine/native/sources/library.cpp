// What the library says of itself.

#define EXPORT extern "C" __attribute__((visibility("default")))

// The number of the interface: it changes whenever a function's arguments or a layout do.
EXPORT int headrace_abi() { return 3; }
