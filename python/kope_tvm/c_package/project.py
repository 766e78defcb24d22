# SPDX-License-Identifier: Apache-2.0
"""What lets CMake and make use a library where it lies."""

from __future__ import annotations

from dataclasses import dataclass

_PROCESSORS = {"x86_64": "x86_64|AMD64", "riscv64": "riscv64", "aarch64": "aarch64|arm64"}


@dataclass(frozen=True)
class Project:
    """The library as build systems see it."""

    name: str
    machine: str
    is_parallel: bool

    def cmake_config(self) -> str:
        """`<name>Config.cmake`, which `find_package` looks for under lib/cmake."""
        name, pattern = self.name, _PROCESSORS.get(self.machine, self.machine)
        threads = "\n".join(
            ["include(CMakeFindDependencyMacro)", "find_dependency(Threads)"]
            if self.is_parallel
            else []
        )
        libraries = "m;Threads::Threads" if self.is_parallel else "m"
        return f"""\
get_filename_component(_{name}_prefix "${{CMAKE_CURRENT_LIST_DIR}}/../../.." ABSOLUTE)
if(CMAKE_SYSTEM_PROCESSOR AND NOT CMAKE_SYSTEM_PROCESSOR MATCHES "^({pattern})$")
  set({name}_FOUND FALSE)
  set({name}_NOT_FOUND_MESSAGE
    "{name} is compiled for {self.machine}, not for ${{CMAKE_SYSTEM_PROCESSOR}}")
  return()
endif()
{threads}
if(NOT TARGET {name}::{name})
  add_library({name}::{name} STATIC IMPORTED)
  set_target_properties({name}::{name} PROPERTIES
    IMPORTED_LOCATION "${{_{name}_prefix}}/lib/lib{name}.a"
    INTERFACE_INCLUDE_DIRECTORIES "${{_{name}_prefix}}/include"
    INTERFACE_LINK_LIBRARIES "{libraries}")
endif()
"""

    def cmake_example(self) -> str:
        """CMakeLists.txt of the example."""
        return f"""\
cmake_minimum_required(VERSION 3.16)
project({self.name}_example C)
find_package({self.name} REQUIRED)
add_executable(main main.c)
target_link_libraries(main PRIVATE {self.name}::{self.name})
enable_testing()
add_test(NAME main COMMAND main)
"""

    def makefile(self) -> str:
        """`make check`; CC and RUN name another machine's compiler and emulator."""
        libraries = "-lm -pthread" if self.is_parallel else "-lm"
        return f"""\
CFLAGS = -std=c11 -O2 -Wall -Wextra -Werror

main: example/main.c lib/lib{self.name}.a
\t$(CC) $(CFLAGS) -Iinclude $(LDFLAGS) -o $@ $< -Llib -l{self.name} {libraries}

.PHONY: check
check: main
\t$(RUN) ./main
"""
