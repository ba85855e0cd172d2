// Detects a build with AddressSanitizer, by g++'s macro or clang's feature.

#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define ENERGON_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define ENERGON_ADDRESS_SANITIZER 1
#endif
#endif
#ifndef ENERGON_ADDRESS_SANITIZER
#define ENERGON_ADDRESS_SANITIZER 0
#endif
