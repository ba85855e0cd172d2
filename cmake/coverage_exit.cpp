// Linked into all programs of the preset `coverage`, with --wrap=_exit.

extern "C" {
void __gcov_dump(void);
[[noreturn]] void __real__exit(int code);

[[noreturn]] void __wrap__exit(int code) {
  __gcov_dump();
  __real__exit(code);
}
}
