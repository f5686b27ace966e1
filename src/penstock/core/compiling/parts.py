"""A function and all that it calls are optimised once, together, for any processor of this kind.

Numba optimises a function with all that it calls, then each of its callers with the same code again, and so on: with a hundred functions
that call each other, most code is optimised dozens of times. Here a function that compiled code calls is a *part*: typed and
translated, but no more. What Python calls is a *whole*: it links its parts, theirs too, and LLVM sees the program once.

The code is for the generic processor of the architecture, so that it may be kept for other machines (docs/decisions/0027).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numba
from llvmlite import binding as untyped_binding
from numba.core import codegen as untyped_codegen
from numba.core import compiler as untyped_compiler
from numba.core import llvm_bindings as untyped_llvm_bindings

from penstock.core.compiling.known_types import known_types

llvm: Any = untyped_binding
codegen: Any = untyped_codegen
compiler: Any = untyped_compiler
llvm_bindings: Any = untyped_llvm_bindings


class Whole(codegen.JITCodeLibrary):  # type: ignore[misc]
    """The code of a function that Python calls, with its parts."""

    def __init__(self, generator: Any, name: str) -> None:
        super().__init__(generator, name)
        self.parts: dict[Part, None] = {}  # in order
        self.enable_object_caching()

    def add_linking_library(self, library: Any) -> None:
        """Link what a call needs; with a part, whatever that needs."""
        if isinstance(library, Part):
            self.parts |= {library: None, **library.parts}
        for needed in library._linking_libraries if isinstance(library, Part) else [library]:
            if needed not in self._linking_libraries:
                super().add_linking_library(needed)

    def finalize(self) -> None:
        """Link the parts, of which nobody else knows, and make machine code of it all."""
        self._link_parts(self._final_module)
        _set_linkage(self._final_module, self.parts, llvm.Linkage.internal)
        super().finalize()

    def _link_parts(self, module: Any) -> None:
        for part in self.parts:
            module.link_in(part._final_module, preserve=True)

    def _optimize_functions(self, module: Any) -> None:
        """Not yet."""

    def _optimize_final_module(self) -> None:
        builder = llvm_bindings.create_pass_builder(_generic_machine(), opt=3, loop_vectorize=True, slp_vectorize=True)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        code = _generic_machine().emit_object(self._final_module)
        self._set_compiled_object(code)
        super()._finalize_final_module()
        self._compiled_object = code  # Numba has let it go, and will ask for it to keep it

    def serialize_using_object_code(self) -> tuple[str, str, tuple[bytes, bytes]]:
        """What Numba keeps: the code, and the names in it instead of its text, which nobody links."""
        defined = {each.name for each in (*self._final_module.functions, *self._final_module.global_variables) if not each.is_declaration}
        names = llvm.parse_assembly("".join(f'@"{name}" = global i8 0\n' for name in sorted(defined)))
        return self.name, "object", (self._get_compiled_object(), names.as_bitcode())


class Part(Whole):
    """The code of a function that compiled code calls, and what it needs in its turn; nothing is done with it here."""

    _shared_module: Any

    def finalize(self) -> None:
        """Leave it to the wholes."""
        self._finalized = True

    def _get_module_for_linking(self) -> Any:
        """For code of others, which knows nothing of parts: this one with all that it needs."""
        if self._shared_module is None:
            module = self._final_module.clone()
            self._link_parts(module)
            _set_linkage(module, {self: None, **self.parts}, llvm.Linkage.linkonce_odr)
            for library in self._linking_libraries:
                module.link_in(library._get_module_for_linking(), preserve=True)
            self._shared_module = module
        return self._shared_module


def _set_linkage(module: Any, parts: dict[Part, None], linkage: Any) -> None:
    """Say of the functions of these parts who else may know of them."""
    for part in parts:
        for function in part.get_defined_functions():
            module.get_function(function.name).linkage = linkage


class WholeCompiler(compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler, into a `Whole`."""

    def compile_extra(self, function: Callable[..., object]) -> Any:
        """Compile a function."""
        self.state.typingctx = known_types(self.state.typingctx)
        self.state.library = Whole(self.state.targetctx.codegen(), function.__qualname__)
        return super().compile_extra(function)


class PartCompiler(compiler.Compiler):  # type: ignore[misc]
    """Numba's compiler, into a `Part`."""

    def compile_extra(self, function: Callable[..., object]) -> Any:
        """Compile a function; what stands for it is no function, since Python does not call it."""
        self.state.flags.no_compile = True
        self.state.typingctx = known_types(self.state.typingctx)
        self.state.library = Part(self.state.targetctx.codegen(), function.__qualname__)
        result = super().compile_extra(function)._replace(entry_point=object())
        self.state.targetctx.insert_user_function(result.entry_point, result.fndesc, [result.library])
        return result


def part_of(function: Callable[..., object], **options: Any) -> Any:
    """What Numba asks for the code of a function where compiled code calls it."""
    jit: Any = numba.njit
    part = jit(no_cpython_wrapper=True, no_cfunc_wrapper=True, pipeline_class=PartCompiler, **options)(function)
    part.add_overload = lambda result: part.overloads.update({tuple(result.signature.args): result})
    return part


class AnyMachine:
    """Stands for the processor where Numba asks for which one code is kept."""

    def magic_tuple(self) -> tuple[str, str]:
        """What differs between machines that cannot run each other's code."""
        return llvm.get_process_triple(), "generic"


@cache
def _generic_machine() -> Any:
    """The generic processor of this architecture, otherwise as Numba asks LLVM for this one."""
    triple = llvm.get_process_triple()
    static = {"reloc": "static"} if triple.startswith(("x86", "i386", "i686")) else {}
    return llvm.Target.from_triple(triple).create_target_machine(cpu="generic", opt=3, codemodel="jitdefault", jit=True, **static)
