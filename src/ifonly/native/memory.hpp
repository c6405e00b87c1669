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

/** Memory handed out piece by piece; without any, it counts how much there has to be. */
struct Pieces {
    char *at;
    i64 used = 0;
    template <class T> T *take(i64 count) {
        T *piece = at ? reinterpret_cast<T *>(at + used) : nullptr;
        used += (count * i64(sizeof(T)) + 63) / 64 * 64;
        return piece;
    }
    template <class T> void lend(T *&to, i64 count) { to = take<T>(count); }
};

} // namespace ifonly::IFONLY_SET
