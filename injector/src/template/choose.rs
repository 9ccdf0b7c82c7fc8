//! `{{#if x}}` and `{{#unless x}}` that refuse a name that is not there: handlebars' own count it as
//! false, so that a misspelt one would silently leave a part out.

use handlebars::{Context, Handlebars, Helper, HelperDef, HelperResult, JsonTruthy, Output, RenderContext, Renderable};

use super::encode::one_parameter;

/// Renders its block where the value's truth is `wanted`, else the `else` block.
pub(super) struct Choose {
    pub(super) wanted: bool,
}

impl HelperDef for Choose {
    fn call<'reg: 'rc, 'rc>(
        &self,
        helper: &Helper<'rc>,
        registry: &'reg Handlebars<'reg>,
        context: &'rc Context,
        render: &mut RenderContext<'reg, 'rc>,
        out: &mut dyn Output,
    ) -> HelperResult {
        let chosen = one_parameter(helper)?.is_truthy(false) == self.wanted;
        let block = if chosen { helper.template() } else { helper.inverse() };
        block.map_or(Ok(()), |block| block.render(registry, context, render, out))
    }
}
