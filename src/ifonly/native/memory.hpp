// Memory for row loops, asked for once before they begin.
#pragma once

#include <new>

#include "numbers.hpp"

namespace ifonly::IFONLY_SET {

struct Memory {
    void *at;
    explicit Memory(i64 bytes) : at(::operator new(bytes + 64)) {}
    ~Memory() { ::operator delete(at); }
    Memory(const Memory &) = delete;
    Memory &operator=(const Memory &) = delete;
    template <class T> T *as() const { return reinterpret_cast<T *>((reinterpret_cast<unsigned long long>(at) + 63) & ~63ULL); }
};

} // namespace ifonly::IFONLY_SET
