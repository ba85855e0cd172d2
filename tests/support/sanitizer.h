// Detects a build with a sanitizer, by g++'s macros or clang's features.

#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ENERGON_ADDRESS_SANITIZER 1
#elif defined(__SANITIZE_THREAD__)
#define ENERGON_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ENERGON_ADDRESS_SANITIZER 1
#endif
#if __has_feature(thread_sanitizer)
#define ENERGON_THREAD_SANITIZER 1
#endif
#endif
#ifndef ENERGON_ADDRESS_SANITIZER
#define ENERGON_ADDRESS_SANITIZER 0
#endif
#ifndef ENERGON_THREAD_SANITIZER
#define ENERGON_THREAD_SANITIZER 0
#endif
